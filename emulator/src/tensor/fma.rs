//! tensor_fma (ISA sheet 3.7): C += A * B on up to 16x16 accumulators.
//!
//! Two implementations of each type: `exact`, portable and the reference, and `avx2`, which computes whole blocks of
//! rows natively and declines when a block contains what native arithmetic would do differently. Native arithmetic
//! does not tell its flags; where those matter, it is used once the sticky flags that the operands could raise are set.

#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::operation::{self, Element, Operation, Place};
use super::{bits, error, exact, illegal, Engine, Line, Op, Outside, Scratchpad, Step, Unit};
use crate::fp::{Flags, Rounding};
use crate::hart::{Hart, Vector};
use crate::sync::WaitFor;
use crate::trap::Trap;

/// A product, as sampled at issue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    value: u64,
    /// Bit i enables row i.
    mask: u16,
    rounding: Rounding,
}

/// Where the operands are.
#[derive(Clone, Debug)]
pub(super) struct Operands<'u> {
    /// A, row by row from word 0.
    pub a: [&'u Line; 16],
    /// B, row by row.
    pub b: [&'u Line; 16],
    /// Rows of A in use.
    pub rows: usize,
    /// Columns of B: 4, 8, 12 or 16.
    pub columns: usize,
    /// Words of A per row = rows of B.
    pub depth: usize,
    /// C starts from nothing.
    pub first: bool,
}

impl Operands<'_> {
    /// Vectors of eight columns in use.
    pub fn halves(&self) -> usize {
        self.columns.div_ceil(8)
    }
}

/// Row numbers below 16.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rows {
    list: [u8; 16],
    len: usize,
}

impl Rows {
    /// The rows below `count` whose bit in `mask` is `enabled`.
    fn select(count: usize, mask: u16, enabled: bool) -> Self {
        let mut rows = Rows::default();
        for row in (0..count).filter(|i| (mask >> i & 1 == 1) == enabled) {
            rows.list[rows.len] = row as u8;
            rows.len += 1;
        }
        rows
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.list[..self.len].iter().map(|&row| usize::from(row))
    }
}

impl Product {
    fn element(&self) -> Option<Element> {
        Some(match bits(self.value, 3, 1) {
            0 => Element::F32,
            1 => Element::F16,
            3 => Element::Int8,
            _ => return None,
        })
    }

    fn ten_b(&self) -> bool {
        bits(self.value, 20, 20) == 1
    }

    fn depth(&self) -> usize {
        bits(self.value, 50, 47) as usize + 1
    }

    fn rows(&self) -> usize {
        bits(self.value, 54, 51) as usize + 1
    }

    fn columns(&self) -> usize {
        4 * (bits(self.value, 56, 55) as usize + 1)
    }

    fn first_a(&self) -> usize {
        bits(self.value, 9, 4) as usize
    }

    fn first_b(&self) -> usize {
        bits(self.value, 17, 12) as usize
    }

    /// C starts from nothing.
    fn first(&self) -> bool {
        bits(self.value, 0, 0) == 1
    }

    /// Whether an int8 product ends in the f registers.
    fn ends_in_registers(&self) -> bool {
        bits(self.value, 23, 23) == 1
    }

    /// What it is to those who watch.
    fn operation(&self, element: Element) -> Operation {
        let (rows, depth, columns) = (self.rows(), self.depth(), self.columns());
        let in_registers = element != Element::Int8 || self.ends_in_registers();
        Operation::Product {
            element,
            rows,
            depth,
            columns,
            a: operation::lines(self.first_a(), 1, rows),
            b: if self.ten_b() { Place::TenB } else { Place::Lines(operation::lines(self.first_b(), 1, depth)) },
            first: self.first(),
            registers: if in_registers { operation::accumulators(0, rows, columns) } else { 0 },
        }
    }

    fn operands<'u>(&self, lines: &'u Scratchpad, ten_b: &'u [Line; 16], turned: &'u mut Turned) -> Operands<'u> {
        let skip = bits(self.value, 46, 43) as usize;
        let depth = self.depth();
        let mut a = [&ten_b[0]; 16];
        for (row, line) in a.iter_mut().enumerate().take(self.rows()) {
            *line = lines.get(self.first_a() + row);
        }
        if skip != 0 {
            let turned = turned.insert(a.map(|line| Line(std::array::from_fn(|k| line.0[(skip + k) % 16]))));
            a = turned.each_ref();
        }
        let mut b = ten_b.each_ref();
        if !self.ten_b() {
            for (k, line) in b.iter_mut().enumerate().take(depth) {
                *line = lines.get(self.first_b() + k);
            }
        }
        Operands { a, b, rows: self.rows(), columns: self.columns(), depth, first: self.first() }
    }
}

/// Rows of A that do not start at word 0, turned so that they do.
type Turned = Option<[Line; 16]>;

impl<O: Outside> Engine<'_, O> {
    pub(super) fn issue_product(&mut self, hart: &mut Hart, value: u64) -> Result<Step, Trap> {
        let mask = if value >> 63 == 1 { hart.tensor_mask } else { u16::MAX };
        let mut product = Product { value, mask, rounding: Rounding::Nearest };
        let element = product.element().ok_or_else(illegal)?;
        if element == Element::F32 {
            product.rounding = Rounding::from_bits(hart.fcsr >> 5 & 7).ok_or_else(illegal)?;
        }
        if !self.scratchpad_on(hart) {
            return Ok(Step::Done);
        }
        // Whatever may make this issue wait comes before the pairing is used up.
        if let wait @ Step::Wait(_) = self.settled(hart, 7)? {
            return Ok(wait);
        }
        if product.ten_b() && self.finish_load(hart, 2)? != Step::Done {
            return Ok(Step::Wait(WaitFor::CooperativeLoad));
        }
        let setup = self.unit.setup.take();
        let expected = product.ten_b().then_some(product.depth() as u8);
        if setup != expected {
            hart.tensor_error |= error::PAIRING;
            return Ok(Step::Done);
        }
        self.enqueue(hart, Op::Product(product), || product.operation(element))
    }

    pub(super) fn multiply(&mut self, hart: &mut Hart, product: &Product) {
        let Some(element) = product.element() else { return };
        let Unit { lines, ten_b, ten_c, macs, .. } = &mut *self.unit;
        let mut turned = None;
        let operands = product.operands(lines, ten_b, &mut turned);
        let rows = Rows::select(product.rows(), product.mask, true);
        let masked = Rows::select(product.rows(), product.mask, false);
        let words = (product.rows() * operands.columns * operands.depth) as u64;
        match element {
            Element::F32 => macs.f32 += words,
            Element::F16 => macs.f16 += 2 * words,
            Element::Int8 => macs.int8 += 4 * words,
        }
        match element {
            Element::F32 | Element::F16 => {
                if operands.first {
                    clear(&mut hart.f, &masked, operands.columns);
                }
                if element == Element::F32 {
                    multiply_f32(&operands, &rows, product.rounding, hart, self.exact_flags);
                } else {
                    multiply_f16(&operands, &rows, hart, self.exact_flags);
                }
            }
            Element::Int8 => {
                let signs = exact::Signs {
                    a_unsigned: bits(product.value, 21, 21) == 1,
                    b_unsigned: bits(product.value, 22, 22) == 1,
                };
                let target = product.ends_in_registers().then_some(&mut hart.f);
                multiply_int8(&operands, &rows, &masked, signs, ten_c, target);
            }
        }
    }
}

/// Zeroes rows of C.
fn clear(c: &mut [Vector; 32], rows: &Rows, columns: usize) {
    for row in rows.iter() {
        for column in 0..columns {
            c[2 * row + column / 8].0[column % 8] = 0;
        }
    }
}

fn multiply_f32(operands: &Operands<'_>, rows: &Rows, rounding: Rounding, hart: &mut Hart, exact_flags: bool) {
    #[cfg(target_arch = "x86_64")]
    let native = (rounding == Rounding::Nearest).then(|| avx2::F32::prepare(operands)).flatten();
    #[cfg(target_arch = "x86_64")]
    let native = native.as_ref().map(|native| {
        (if exact_flags { native.may_raise() } else { 0 }, |rows: &[u8], c: &mut _| native.rows(rows, c))
    });
    #[cfg(not(target_arch = "x86_64"))]
    let native: Option<(u32, fn(&[u8], &mut [Vector; 32]) -> bool)> = None;
    by_blocks(rows, hart, native, |row, c, flags| exact::f32_row(operands, row, c, rounding, flags));
}

fn multiply_f16(operands: &Operands<'_>, rows: &Rows, hart: &mut Hart, exact_flags: bool) {
    #[cfg(target_arch = "x86_64")]
    let native = avx2::F16::prepare(operands);
    #[cfg(target_arch = "x86_64")]
    let native = native.as_ref().map(|native| {
        (if exact_flags { native.may_raise() } else { 0 }, |rows: &[u8], c: &mut _| native.rows(rows, c))
    });
    #[cfg(not(target_arch = "x86_64"))]
    let native: Option<(u32, fn(&[u8], &mut [Vector; 32]) -> bool)> = None;
    by_blocks(rows, hart, native, |row, c, flags| exact::f16_row(operands, row, c, flags));
}

/// Computes rows natively in blocks of four where that is known to be exact, flags included, and one by one otherwise.
fn by_blocks(
    rows: &Rows,
    hart: &mut Hart,
    native: Option<(u32, impl Fn(&[u8], &mut [Vector; 32]) -> bool)>,
    exact: impl Fn(usize, &mut [Vector; 32], &mut Flags),
) {
    let mut rest = &rows.list[..rows.len];
    while !rest.is_empty() {
        let mut block = 1;
        if let Some((may_raise, native)) = &native {
            if hart.fcsr & may_raise == *may_raise {
                block = rest.len().min(4);
                if native(&rest[..block], &mut hart.f) {
                    rest = &rest[block..];
                    continue;
                }
            }
        }
        for &row in &rest[..block] {
            let mut flags = Flags::default();
            exact(usize::from(row), &mut hart.f, &mut flags);
            hart.fcsr |= flags.0;
        }
        rest = &rest[block..];
    }
}

/// Sums go to TenC; with a target, the last step's go there instead, and TenC keeps the sums before it.
fn multiply_int8(
    operands: &Operands<'_>,
    rows: &Rows,
    masked: &Rows,
    signs: exact::Signs,
    ten_c: &mut [Vector; 32],
    mut target: Option<&mut [Vector; 32]>,
) {
    #[cfg(target_arch = "x86_64")]
    let native = avx2::multiply_int8(operands, &rows.list[..rows.len], signs, ten_c, target.as_deref_mut());
    #[cfg(not(target_arch = "x86_64"))]
    let native = false;
    if !native {
        exact_int8(operands, rows, signs, ten_c, target.as_deref_mut());
    }
    // Rows that are masked go through the same steps without products.
    let written = operands.depth > 1 || target.is_none();
    if masked.len == 0 {
        return;
    }
    let mut sums = *ten_c;
    if operands.first {
        clear(&mut sums, masked, operands.columns);
        if written {
            clear(ten_c, masked, operands.columns);
        }
    }
    if let Some(target) = target {
        copy(target, &sums, masked, operands.columns);
    }
}

fn exact_int8(
    operands: &Operands<'_>,
    rows: &Rows,
    signs: exact::Signs,
    ten_c: &mut [Vector; 32],
    target: Option<&mut [Vector; 32]>,
) {
    let last = operands.depth - usize::from(target.is_some());
    let mut sums = *ten_c;
    if operands.first {
        clear(&mut sums, rows, operands.columns);
    }
    for row in rows.iter() {
        exact::int8_row(operands, 0..last, row, signs, &mut sums);
    }
    // With a depth of 1 the only step goes to the target, and TenC is not written at all.
    if last > 0 {
        *ten_c = sums;
    }
    if let Some(target) = target {
        for row in rows.iter() {
            exact::int8_row(operands, last..operands.depth, row, signs, &mut sums);
        }
        copy(target, &sums, rows, operands.columns);
    }
}

/// Copies rows of C.
fn copy(to: &mut [Vector; 32], from: &[Vector; 32], rows: &Rows, columns: usize) {
    for row in rows.iter() {
        for column in 0..columns {
            let (register, lane) = (2 * row + column / 8, column % 8);
            to[register].0[lane] = from[register].0[lane];
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::fp;

    /// A small generator of reproducible numbers.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u32 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 32) as u32
        }

        fn below(&mut self, n: u32) -> u32 {
            self.next() % n
        }

        /// Usual numbers, and one in `rare` of another kind.
        fn f32(&mut self, rare: u32) -> u32 {
            let sign = self.next() & fp::SIGN;
            if self.below(rare) != 0 {
                return sign | (97 + self.below(50)) << 23 | self.next() & 0x7F_FFFF;
            }
            match self.below(6) {
                0 => 0,
                1 => sign,
                2 => sign | self.next() & 0x7F_FFFF,
                3 => sign | (1 + self.below(60)) << 23 | self.next() & 0x7F_FFFF,
                4 => sign | (200 + self.below(54)) << 23 | self.next() & 0x7F_FFFF,
                _ => sign | 0xFF << 23 | self.next() & 0x7F_FFFF & 0u32.wrapping_sub(self.below(2)),
            }
        }

        fn f16(&mut self, rare: u32) -> u32 {
            let sign = self.next() & 0x8000;
            let fraction = self.next() & 0x3FF;
            if self.below(rare) != 0 {
                return sign | (10 + self.below(10)) << 10 | fraction;
            }
            match self.below(5) {
                0 => 0,
                1 => sign | fraction,
                2 => sign | 31 << 10 | fraction & 0u32.wrapping_sub(self.below(2)),
                _ => sign | (1 + self.below(30)) << 10 | fraction,
            }
        }

        fn case(&mut self, mut word: impl FnMut(&mut Self) -> u32) -> Case {
            let mut lines = || std::array::from_fn(|_| Line(std::array::from_fn(|_| word(self))));
            let (a, b) = (lines(), lines());
            let count = 1 + self.below(16) as usize;
            Case {
                a,
                b,
                count,
                columns: 4 * (1 + self.below(4) as usize),
                depth: 1 + self.below(16) as usize,
                first: self.below(2) == 0,
                c: [Vector::default(); 32],
                rows: Rows::select(count, self.next() as u16 | 1, true),
            }
        }
    }

    struct Case {
        a: [Line; 16],
        b: [Line; 16],
        count: usize,
        columns: usize,
        depth: usize,
        first: bool,
        c: [Vector; 32],
        rows: Rows,
    }

    impl Case {
        fn operands(&self) -> Operands<'_> {
            let &Case { ref a, ref b, count, columns, depth, first, .. } = self;
            Operands { a: a.each_ref(), b: b.each_ref(), rows: count, columns, depth, first }
        }

        fn fill(&mut self, mut word: impl FnMut() -> u32) {
            self.c.iter_mut().flat_map(|c| &mut c.0).for_each(|c| *c = word());
        }
    }

    /// Compares native with exact rows; gives how many blocks native arithmetic took and how many it declined.
    fn compare(
        rows: &Rows,
        c: &[Vector; 32],
        native: Option<impl Fn(&[u8], &mut [Vector; 32]) -> bool>,
        exact: impl Fn(usize, &mut [Vector; 32]),
    ) -> (u32, u32) {
        let Some(native) = native else { return (0, 1) };
        let (mut taken, mut declined) = (0, 0);
        for block in rows.list[..rows.len].chunks(4) {
            let (mut got, mut want) = (*c, *c);
            if native(block, &mut got) {
                taken += 1;
                for &row in block {
                    exact(usize::from(row), &mut want);
                }
            } else {
                declined += 1;
            }
            assert!(got == want, "rows {block:?}: {got:x?} instead of {want:x?}");
        }
        (taken, declined)
    }

    #[test]
    fn native_fp32_is_exact_where_it_is_taken() {
        let mut random = Random(1);
        for rare in [4, 30, 1000, u32::MAX] {
            let (mut taken, mut declined) = (0, 0);
            for _ in 0..300 {
                let mut case = random.case(|random| random.f32(rare));
                case.fill(|| random.f32(rare.saturating_mul(4)));
                let operands = case.operands();
                let native = avx2::F32::prepare(&operands);
                let native = native.as_ref().map(|native| |rows: &[u8], c: &mut _| native.rows(rows, c));
                let (yes, no) = compare(&case.rows, &case.c, native, |row, c| {
                    exact::f32_row(&operands, row, c, Rounding::Nearest, &mut Flags::default());
                });
                (taken, declined) = (taken + yes, declined + no);
            }
            if rare == u32::MAX && is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                assert!(taken > 50 * declined, "{taken} {declined}");
            }
        }
    }

    #[test]
    fn native_fp32_raises_no_flag_that_it_does_not_announce() {
        let mut random = Random(2);
        for _ in 0..300 {
            let mut case = random.case(|random| random.f32(200));
            case.fill(|| random.f32(1000));
            let (operands, mut c) = (case.operands(), case.c);
            let Some(native) = avx2::F32::prepare(&operands) else { continue };
            for row in case.rows.iter() {
                if native.rows(&[row as u8], &mut c.clone()) {
                    let mut flags = Flags::default();
                    exact::f32_row(&operands, row, &mut c, Rounding::Nearest, &mut flags);
                    assert_eq!(flags.0 & !native.may_raise(), 0);
                }
            }
        }
    }

    #[test]
    fn native_fp16_is_exact_where_it_is_taken() {
        let mut random = Random(3);
        for rare in [4, 30, 1000, u32::MAX] {
            let (mut taken, mut declined) = (0, 0);
            for _ in 0..300 {
                let mut case = random.case(|random| random.f16(rare) | random.f16(rare) << 16);
                let wide = random.below(2) == 0;
                case.fill(|| if wide { random.f32(rare.saturating_mul(4)) } else { 0x3F80_0000 ^ random.next() >> 5 });
                let operands = case.operands();
                let native = avx2::F16::prepare(&operands);
                let may_raise = native.as_ref().map_or(0, |native| native.may_raise());
                let native = native.as_ref().map(|native| |rows: &[u8], c: &mut _| native.rows(rows, c));
                let (yes, no) = compare(&case.rows, &case.c, native, |row, c| {
                    let mut flags = Flags::default();
                    exact::f16_row(&operands, row, c, &mut flags);
                    assert_eq!(flags.0 & !may_raise, 0);
                });
                (taken, declined) = (taken + yes, declined + no);
            }
            if rare == u32::MAX && is_x86_feature_detected!("avx2") {
                assert!(taken > 50 * declined, "{taken} {declined}");
            }
        }
    }

    #[test]
    fn native_int8_is_exact() {
        let mut random = Random(4);
        for round in 0..400 {
            let mut case = random.case(Random::next);
            case.fill(|| random.next());
            let (operands, rows) = (case.operands(), &case.rows);
            let signs = exact::Signs { a_unsigned: round & 1 == 1, b_unsigned: round & 2 == 2 };
            let (mut got, mut want) = ((case.c, case.c), (case.c, case.c));
            let to_target = round & 4 == 4;
            let native = {
                let (ten_c, target) = (&mut got.0, to_target.then_some(&mut got.1));
                avx2::multiply_int8(&operands, &rows.list[..rows.len], signs, ten_c, target)
            };
            if !native {
                return;
            }
            let (ten_c, target) = (&mut want.0, to_target.then_some(&mut want.1));
            exact_int8(&operands, rows, signs, ten_c, target);
            assert!(got == want);
        }
    }
}
