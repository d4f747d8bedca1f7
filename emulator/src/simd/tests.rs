//! The fast forms, on every kind of host, against the exact functions of `fp`.

use super::*;

/// Operands that have something special about them, and random bits.
fn operands() -> impl Iterator<Item = u32> {
    const SPECIAL: [u32; 28] = [
        0,
        1,
        0x007F_FFFF,
        0x0080_0000,
        0x0080_0001,
        0x00FF_FFFF,
        0x0100_0000,
        0x3380_0000,
        0x387F_E000,
        0x387F_F000,
        0x3880_0000,
        0x3EFF_FFFF,
        0x3F00_0000,
        0x3F00_0001,
        0x3F7F_FFFF,
        0x3F80_0000,
        0x3FC0_0000,
        0x4020_0000,
        0x477F_F000,
        0x4AFF_FFFF,
        0x4B00_0001,
        0x4EFF_FFFF,
        0x4F00_0000,
        0x4F7F_FFFF,
        0x7E80_0000,
        0x7F7F_FFFF,
        0x7F80_0000,
        0x7FC0_0000,
    ];
    let mut state = 0x0123_4567_89AB_CDEF_u64;
    let random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    std::iter::repeat_with(random).map(|bits| {
        let value = (bits >> 32) as u32;
        match bits & 7 {
            0 => SPECIAL[(bits >> 8) as usize % SPECIAL.len()] | value & SIGN,
            1 => 0x7F80_0001 | value,
            // Exponents near each other and near the ends of the range.
            2 => value & 0x807F_FFFF | (120 + (bits >> 8 & 15) as u32) << 23,
            3 => value & 0x83FF_FFFF,
            4 => value | 0x7C00_0000,
            _ => value,
        }
    })
}

/// Computes `$result` on `$host`. A task of its own for each use, so that the fast form is inlined into the copy that
/// has the host's vector instructions.
macro_rules! on {
    ($host:expr, $inputs:expr, |$a:ident, $b:ident, $c:ident| $result:expr) => {
        on!($host, $inputs, |_v, $a, $b, $c| $result)
    };
    ($host:expr, $inputs:expr, |$v:ident, $a:ident, $b:ident, $c:ident| $result:expr) => {{
        struct Once([Lanes; 3]);
        impl Task for Once {
            type Output = Lanes;
            #[inline(always)]
            fn run<V: Vectors>(self, $v: V) -> Lanes {
                let [$a, $b, $c] = self.0;
                $result
            }
        }
        $host.run(Once($inputs))
    }};
}

const ROUNDS: usize = 20_000;

/// Compares the results of `fast` on every host with those of `exact` for each lane.
fn compare(name: &str, fast: impl Fn(Host, [Lanes; 3]) -> Lanes, exact: impl Fn(u32, u32, u32) -> u32) {
    let mut source = operands();
    for _ in 0..ROUNDS {
        let inputs: [Lanes; 3] = std::array::from_fn(|_| std::array::from_fn(|_| source.next().expect("endless")));
        for host in [Host::Portable, Host::detect()] {
            let got = fast(host, inputs);
            for e in 0..8 {
                let [a, b, c] = inputs.map(|lanes| lanes[e]);
                let want = exact(a, b, c);
                assert_eq!(got[e], want, "{name} on {host:?}: {a:08x} {b:08x} {c:08x}: {:08x}, not {want:08x}", got[e]);
            }
        }
    }
}

macro_rules! check1 {
    ($fast:path, $exact:expr) => {
        compare(
            stringify!($fast),
            |host, x| on!(host, x, |a, _b, _c| $fast(a)),
            |a, _, _| {
                let exact: fn(u32, &mut Flags) -> u32 = $exact;
                exact(a, &mut Flags::default())
            },
        )
    };
}
macro_rules! check2 {
    ($fast:path, $exact:expr) => {
        compare(
            stringify!($fast),
            |host, x| on!(host, x, |a, b, _c| $fast(a, b)),
            |a, b, _| {
                let exact: fn(u32, u32, &mut Flags) -> u32 = $exact;
                exact(a, b, &mut Flags::default())
            },
        )
    };
}
/// The second group names the three inputs, the third those that the operation has.
macro_rules! check_arithmetic {
    ($name:ident, [$a:ident $b:ident $c:ident], $($operand:ident),*) => {
        compare(
            stringify!($name),
            |host, x| {
                on!(host, x, |v, $a, $b, $c| {
                    let _ = $c;
                    v.$name($($operand),*).unwrap_or_else(|| careful::$name($($operand),*))
                })
            },
            |$a, $b, $c| {
                let _ = $c;
                fp::$name($($operand,)* Rounding::Nearest, &mut Flags::default())
            },
        )
    };
}

#[test]
fn arithmetic() {
    check_arithmetic!(add, [a b c], a, b);
    check_arithmetic!(sub, [a b c], a, b);
    check_arithmetic!(mul, [a b c], a, b);
    check_arithmetic!(fma, [a b c], a, b, c);
    check_arithmetic!(fms, [a b c], a, b, c);
    check_arithmetic!(fnms, [a b c], a, b, c);
    check_arithmetic!(fnma, [a b c], a, b, c);
}

#[test]
fn a_product_just_below_the_smallest_normal_is_zero() {
    let inputs = [[0x3F7F_FFFF; 8], [0x0080_0000; 8], [0; 8]];
    for host in [Host::Portable, Host::detect()] {
        assert_eq!(on!(host, inputs, |v, a, b, _c| v.mul(a, b).unwrap_or_else(|| careful::mul(a, b))), [0; 8]);
        assert_eq!(on!(host, inputs, |v, a, b, c| v.fma(a, b, c).unwrap_or_else(|| careful::fma(a, b, c))), [0; 8]);
    }
}

#[test]
fn comparisons() {
    macro_rules! check_pick {
        ($name:ident) => {
            compare(
                stringify!($name),
                |host, x| on!(host, x, |v, a, b, _c| v.$name(a, b).unwrap_or_else(|| careful::$name(a, b))),
                |a, b, _| fp::$name(a, b, &mut Flags::default()),
            )
        };
    }
    check_pick!(min);
    check_pick!(max);
    check2!(eq, |a, b, flags| mask(fp::eq(a, b, flags)));
    check2!(lt, |a, b, flags| mask(fp::lt(a, b, flags)));
    check2!(le, |a, b, flags| mask(fp::le(a, b, flags)));
}

#[test]
fn conversions() {
    macro_rules! by_mode {
        ($fast:path, $exact:path, $($rm:ident),*) => {
            $(compare(
                concat!(stringify!($fast), " ", stringify!($rm)),
                |host, x| on!(host, x, |a, _b, _c| $fast(a, Rounding::$rm)),
                |a, _, _| $exact(a, Rounding::$rm, &mut Flags::default()),
            );)*
        };
    }
    by_mode!(round, fp::round_to_integral, Nearest, Zero, Down, Up, Away);
    by_mode!(to_i32, fp::f32_to_i32, Nearest, Zero, Down, Up, Away);
    by_mode!(to_u32, fp::f32_to_u32, Nearest, Zero, Down, Up, Away);
    macro_rules! direct {
        ($rm:ident) => {
            compare(
                concat!("to_i32 ", stringify!($rm)),
                |host, x| {
                    on!(host, x, |v, a, _b, _c| {
                        v.to_i32(a, Rounding::$rm).unwrap_or_else(|| to_i32(a, Rounding::$rm))
                    })
                },
                |a, _, _| fp::f32_to_i32(a, Rounding::$rm, &mut Flags::default()),
            )
        };
    }
    direct!(Nearest);
    direct!(Zero);
    check1!(from_i32, |a, flags| fp::i32_to_f32(a, Rounding::Nearest, flags));
    check1!(from_u32, |a, flags| fp::u32_to_f32(a, Rounding::Nearest, flags));
    check1!(from_f16, |a, flags| fp::f16_to_f32(a as u16, flags));
    check1!(to_f16, |a, flags| fp::f32_to_f16(a, Rounding::Nearest, flags) as u32);
    check1!(fraction, fp::fraction);
}

#[test]
fn transcendentals() {
    check1!(recip, fp::recip);
    check1!(exp2, fp::exp2);
    check1!(log2, fp::log2);
}

#[test]
fn blending_follows_the_mask() {
    for m in 0..=0xFF {
        let got = on!(Host::detect(), [[m; 8], [1; 8], [2; 8]], |m, old, new| blend(m[0] as u8, old, new));
        assert_eq!(got, std::array::from_fn(|e| 1 + (m >> e & 1)));
    }
}
