//! The exact functions against the host's arithmetic, which shares no code with them, and against worked cases.

use super::*;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A normal number of moderate size.
    fn moderate(&mut self) -> u32 {
        let bits = self.next();
        bits as u32 & 0x807F_FFFF | (96 + (bits >> 32) as u32 % 62) << 23
    }
}

/// The next larger number.
fn next_up(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if x > 0.0 { bits + 1 } else { bits - 1 })
}

const NEAREST: Rounding = Rounding::Nearest;

#[test]
fn nearest_agrees_with_the_host() {
    let mut random = Random(0x0DDB_1A5E_5BAD_5EED);
    for _ in 0..300_000 {
        let [a, b, c] = std::array::from_fn(|_| random.moderate());
        let [x, y, z] = [a, b, c].map(f32::from_bits);
        let mut flags = Flags::default();
        assert_eq!(add(a, b, NEAREST, &mut flags), (x + y).to_bits(), "{a:08x} + {b:08x}");
        assert_eq!(sub(a, b, NEAREST, &mut flags), (x - y).to_bits(), "{a:08x} - {b:08x}");
        assert_eq!(mul(a, b, NEAREST, &mut flags), (x * y).to_bits(), "{a:08x} * {b:08x}");
        assert_eq!(fma(a, b, c, NEAREST, &mut flags), x.mul_add(y, z).to_bits(), "{a:08x} * {b:08x} + {c:08x}");
        assert_eq!(flags.0 & !Flags::NX, 0);
    }
}

#[test]
fn directed_modes_enclose_the_exact_product() {
    let mut random = Random(0xFEED_FACE_CAFE_F00D);
    for _ in 0..100_000 {
        let (a, b) = (random.moderate(), random.moderate());
        let exact = f32::from_bits(a) as f64 * f32::from_bits(b) as f64;
        let by = |rm| {
            let mut flags = Flags::default();
            let result = f32::from_bits(mul(a, b, rm, &mut flags)) as f64;
            assert_eq!(flags.0 == Flags::NX, result != exact);
            result
        };
        let (down, up, zero) = (by(Rounding::Down), by(Rounding::Up), by(Rounding::Zero));
        assert!(down <= exact && exact <= up);
        assert_eq!(zero, if exact < 0.0 { up } else { down });
        assert!((down == up) == (down == exact) && next_up(down as f32) as f64 >= up);
        let away = by(Rounding::Away);
        let distance = |r: f64| (r - exact).abs();
        assert!(distance(away) <= distance(down).min(distance(up)));
    }
}

#[test]
fn flush_to_zero_looks_at_the_rounded_result() {
    for (a, b, rm, result, flags) in [
        (0x3F7F_FFFF, 0x0080_0000, NEAREST, 0, Flags::UF | Flags::NX),
        (0x3F7F_FFFF, 0x0080_0001, NEAREST, 0x0080_0000, Flags::NX),
        (0x3F00_0000, 0x0080_0000, Rounding::Up, 0, Flags::UF | Flags::NX),
        (0x3F80_0000, 0x8000_0001, NEAREST, SIGN, Flags::ID),
        (0x7F7F_FFFF, 0x4000_0000, Rounding::Zero, 0x7F7F_FFFF, Flags::OF | Flags::NX),
        (0x7F7F_FFFF, 0x4000_0000, NEAREST, INFINITY, Flags::OF | Flags::NX),
        (INFINITY, 0x0000_0001, NEAREST, CANONICAL_NAN, Flags::NV | Flags::ID),
        (0x7F80_0001, 0x3F80_0000, NEAREST, CANONICAL_NAN, Flags::NV),
    ] {
        let mut raised = Flags::default();
        assert_eq!(mul(a, b, rm, &mut raised), result, "{a:08x} * {b:08x}");
        assert_eq!(raised.0, flags, "{a:08x} * {b:08x}");
    }
}

#[test]
fn exact_zeros_take_their_sign_from_terms_and_mode() {
    let one = 1f32.to_bits();
    let none = &mut Flags::default();
    assert_eq!(sub(one, one, NEAREST, none), 0);
    assert_eq!(sub(one, one, Rounding::Down, none), SIGN);
    assert_eq!(add(SIGN, SIGN, NEAREST, none), SIGN);
    assert_eq!(mul(SIGN, one, Rounding::Up, none), SIGN);
    assert_eq!(fma(0, one, SIGN, NEAREST, none), 0);
    assert_eq!(*none, Flags::default());
}

#[test]
fn halves_survive_a_round_trip() {
    for half in 0..=u16::MAX {
        let mut flags = Flags::default();
        let wide = f16_to_f32(half, &mut flags);
        let (exponent, fraction) = (half >> 10 & 31, half & 0x3FF);
        let back = f32_to_f16(wide, NEAREST, &mut flags);
        let expected = match (exponent, fraction) {
            (31, 1..) => 0x7E00,
            (0, _) => half & 0x8000,
            _ => half,
        };
        assert_eq!(back, expected, "{half:04x}");
    }
}

#[test]
fn transcendentals_are_within_half_a_unit() {
    // The host's double-precision functions are the oracle; a tie is out of the question.
    let mut random = Random(0xABCD_EF01_2345_6789);
    let near = |got: u32, want: f64| {
        let got = f32::from_bits(got);
        let unit = (next_up(got.abs()) - got.abs()) as f64;
        (got as f64 - want).abs() <= unit * 0.500_001
    };
    for _ in 0..100_000 {
        let mut flags = Flags::default();
        let a = random.moderate();
        let x = f32::from_bits(a) as f64;
        assert!(near(recip(a, &mut flags), 1.0 / x), "1 / {a:08x}");
        assert!(near(log2(a & !SIGN, &mut flags), x.abs().log2()), "log2 {a:08x}");
        let exponent = (random.next() as u32 as f64 / 2f64.powi(24) - 126.0) as f32;
        if exponent < 128.0 {
            assert!(near(exp2(exponent.to_bits(), &mut flags), (exponent as f64).exp2()), "2^{exponent}");
        }
        assert_eq!(flags, Flags::default());
    }
}

#[test]
fn transcendental_special_values() {
    let check = |f: fn(u32, &mut Flags) -> u32, a: u32, result: u32, raised: u32| {
        let mut flags = Flags::default();
        assert_eq!((f(a, &mut flags), flags.0), (result, raised), "{a:08x}");
    };
    let minus_infinity = SIGN | INFINITY;
    for (a, result, flags) in [
        (0, INFINITY, Flags::DZ),
        (SIGN | 1, minus_infinity, Flags::DZ | Flags::ID),
        (minus_infinity, SIGN, 0),
        (0x7E80_0000, 0x0080_0000, 0),
        (0x7E80_0001, 0, 0),
        (0x7F80_0001, CANONICAL_NAN, Flags::NV),
    ] {
        check(recip, a, result, flags);
    }
    for (a, result, flags) in [
        (0, 0x3F80_0000, 0),
        (1, 0x3F80_0000, Flags::ID),
        (128f32.to_bits(), INFINITY, 0),
        ((-126f32).to_bits(), SMALLEST_NORMAL, 0),
        ((-126f32).to_bits() + 1, 0, 0),
        (minus_infinity, 0, 0),
        (INFINITY, INFINITY, 0),
    ] {
        check(exp2, a, result, flags);
    }
    for (a, result, flags) in [
        (0, minus_infinity, 0),
        (SIGN, minus_infinity, 0),
        (1, minus_infinity, Flags::ID),
        (0x3F80_0000, 0, 0),
        ((-1f32).to_bits(), CANONICAL_NAN, Flags::NV),
        (INFINITY, INFINITY, 0),
        (CANONICAL_NAN, CANONICAL_NAN, 0),
    ] {
        check(log2, a, result, flags);
    }
}
