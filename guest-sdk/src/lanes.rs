//! Eight rows at once.
//!
//! A loop over rows pays for each turn: fuel and the deadline are looked at. [`Lanes`] does the same
//! arithmetic on eight rows in a turn, in vector code where there is any, and gives each row what
//! it would get by itself, bit for bit.
#![allow(unsafe_code, reason = "vectors are read from and written to slices of numbers")]

use std::ops::{Add, Div, Mul, Sub};

use crate::Result;

/// A value for each of eight rows.
#[derive(Debug, Clone, Copy)]
pub struct Lanes(imp::Eight);

impl Lanes {
    /// How many rows there are.
    pub const ROWS: usize = 8;

    /// The same value in all rows.
    #[inline(always)]
    pub fn splat(value: f64) -> Self {
        Self(imp::splat(value))
    }

    /// The higher value in each row: `self` where it is greater than `other`, and otherwise `other`, also
    /// where that is NaN and where `self` is.
    #[inline(always)]
    pub fn higher(self, other: Self) -> Self {
        Self(imp::higher(self.0, other.0))
    }

    /// The lower value in each row: `self` where it is less than `other`, and otherwise `other`, also
    /// where that is NaN and where `self` is.
    #[inline(always)]
    pub fn lower(self, other: Self) -> Self {
        Self(imp::lower(self.0, other.0))
    }

    /// The value in each row, and 0 for what isn't above.
    #[inline(always)]
    pub fn positive(self) -> Self {
        self.higher(Self::splat(0.0))
    }

    /// Writes each row's cost, as `cost` has it: from what `costs` had for eight rows, and from their
    /// values of the columns. The last rows, if they are fewer than eight, stand before rows of zeros
    /// that there aren't: what is gathered over all rows is to be gathered elsewhere.
    ///
    /// # Errors
    ///
    /// When a column hasn't as many rows as `costs`; then nothing is written.
    #[inline(always)]
    pub fn each<const N: usize>(
        columns: [&[f64]; N],
        costs: &mut [f64],
        mut cost: impl FnMut(Self, [Self; N]) -> Self,
    ) -> Result {
        let rows = costs.len();
        if let Some(column) = columns.iter().find(|column| column.len() != rows) {
            return Err(format!("a column has {} values for {rows} rows", column.len()).into());
        }
        let mut start = 0;
        let mut blocks = costs.chunks_exact_mut(Self::ROWS);
        for block in &mut blocks {
            // SAFETY: a column is as long as `costs`, which has eight more rows from here.
            let cells = columns.map(|column| Self::of(unsafe { eight_from(column, start) }));
            let before = Self::begin(block);
            if let Some(block) = block.first_chunk_mut() {
                cost(before, cells).write(block);
            }
            start += Self::ROWS;
        }
        let rest = blocks.into_remainder();
        if !rest.is_empty() {
            let mut eight = [0.0; Self::ROWS];
            let cells = columns.map(|column| Self::padded(column.get(start..).unwrap_or_default()));
            cost(Self::padded(rest), cells).write(&mut eight);
            rest.iter_mut().zip(eight).for_each(|(to, from)| *to = from);
        }
        Ok(())
    }

    /// The first eight of at least as many rows.
    #[inline(always)]
    fn begin(rows: &[f64]) -> Self {
        rows.first_chunk().map_or_else(|| Self::splat(0.0), Self::of)
    }

    /// Fewer than eight rows, and zeros for those that there aren't.
    fn padded(rows: &[f64]) -> Self {
        let mut eight = [0.0; Self::ROWS];
        eight.iter_mut().zip(rows).for_each(|(to, from)| *to = *from);
        Self::of(&eight)
    }

    /// The values of eight rows.
    #[inline(always)]
    pub fn of(rows: &[f64; Self::ROWS]) -> Self {
        Self(imp::load(rows))
    }

    /// Writes the rows' values.
    #[inline(always)]
    pub fn write(self, rows: &mut [f64; Self::ROWS]) {
        imp::store(self.0, rows);
    }

    /// The least value of all rows, none of which is NaN.
    #[inline(always)]
    pub(crate) fn least(self) -> f64 {
        imp::least(self.0)
    }

    /// Which rows have this value, by bits.
    #[inline(always)]
    pub(crate) fn equal(self, value: f64) -> u32 {
        imp::equal(self.0, imp::splat(value))
    }

    /// Whether no value is infinite or NaN.
    #[inline(always)]
    pub(crate) fn are_finite(self) -> bool {
        imp::are_finite(self.0)
    }
}

macro_rules! operation {
    ($trait:ident, $name:ident) => {
        impl $trait for Lanes {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                Self(imp::$name(self.0, other.0))
            }
        }

        impl $trait<f64> for Lanes {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: f64) -> Self {
                self.$name(Self::splat(other))
            }
        }

        impl $trait<Lanes> for f64 {
            type Output = Lanes;

            #[inline(always)]
            fn $name(self, other: Lanes) -> Lanes {
                Lanes::splat(self).$name(other)
            }
        }
    };
}

operation!(Add, add);
operation!(Sub, sub);
operation!(Mul, mul);
operation!(Div, div);

/// Vectors of two.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod imp {
    use std::arch::wasm32::{
        f64x2_add, f64x2_div, f64x2_eq, f64x2_extract_lane, f64x2_mul, f64x2_pmax, f64x2_pmin,
        f64x2_splat, f64x2_sub, i64x2_bitmask, i64x2_eq, u64x2_splat, v128, v128_and,
        v128_any_true, v128_or,
    };

    pub(super) type Eight = [v128; 4];

    macro_rules! by_two {
        ($name:ident, $of_two:ident) => {
            #[inline(always)]
            pub(super) fn $name(a: Eight, b: Eight) -> Eight {
                [$of_two(a[0], b[0]), $of_two(a[1], b[1]), $of_two(a[2], b[2]), $of_two(a[3], b[3])]
            }
        };
    }

    by_two!(add, f64x2_add);
    by_two!(sub, f64x2_sub);
    by_two!(mul, f64x2_mul);
    by_two!(div, f64x2_div);
    // `pmax` gives its second only where that is greater than its first, and `pmin` where it is less.
    by_two!(first_unless_second_is_higher, f64x2_pmax);
    by_two!(first_unless_second_is_lower, f64x2_pmin);

    #[inline(always)]
    pub(super) fn higher(a: Eight, b: Eight) -> Eight {
        first_unless_second_is_higher(b, a)
    }

    #[inline(always)]
    pub(super) fn lower(a: Eight, b: Eight) -> Eight {
        first_unless_second_is_lower(b, a)
    }

    #[inline(always)]
    pub(super) fn splat(value: f64) -> Eight {
        [f64x2_splat(value); 4]
    }

    #[inline(always)]
    pub(super) fn load(rows: &[f64; 8]) -> Eight {
        // SAFETY: eight numbers are four vectors, which may stand anywhere.
        unsafe { std::ptr::from_ref(rows).cast::<Eight>().read_unaligned() }
    }

    #[inline(always)]
    pub(super) fn store(values: Eight, rows: &mut [f64; 8]) {
        // SAFETY: as above.
        unsafe { std::ptr::from_mut(rows).cast::<Eight>().write_unaligned(values) }
    }

    /// Of values none of which is NaN.
    #[inline(always)]
    pub(super) fn least(of: Eight) -> f64 {
        let two = f64x2_pmin(f64x2_pmin(of[0], of[1]), f64x2_pmin(of[2], of[3]));
        let (a, b) = (f64x2_extract_lane::<0>(two), f64x2_extract_lane::<1>(two));
        if b < a { b } else { a }
    }

    #[inline(always)]
    pub(super) fn equal(of: Eight, value: Eight) -> u32 {
        let bits = |at: usize| u32::from(i64x2_bitmask(f64x2_eq(of[at], value[at]))) << (2 * at);
        bits(0) | bits(1) | bits(2) | bits(3)
    }

    #[inline(always)]
    pub(super) fn are_finite(of: Eight) -> bool {
        let exponent = u64x2_splat(super::EXPONENT);
        let odd = of.map(|two| i64x2_eq(v128_and(two, exponent), exponent));
        !v128_any_true(v128_or(v128_or(odd[0], odd[1]), v128_or(odd[2], odd[3])))
    }
}

/// Eight rows of a column, without a look at where it ends.
///
/// # Safety
///
/// The column has eight rows from `start` on.
#[inline(always)]
unsafe fn eight_from(column: &[f64], start: usize) -> &[f64; Lanes::ROWS] {
    debug_assert!(column.len() - start >= Lanes::ROWS);
    // SAFETY: as above.
    unsafe { &*column.as_ptr().add(start).cast() }
}

/// One after the other.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod imp {
    use std::array::from_fn;

    pub(super) type Eight = [f64; 8];

    macro_rules! by_one {
        ($name:ident, |$a:ident, $b:ident| $value:expr) => {
            #[inline(always)]
            pub(super) fn $name(a: Eight, b: Eight) -> Eight {
                from_fn(|row| {
                    let ($a, $b) = (a[row], b[row]);
                    $value
                })
            }
        };
    }

    by_one!(add, |a, b| a + b);
    by_one!(sub, |a, b| a - b);
    by_one!(mul, |a, b| a * b);
    by_one!(div, |a, b| a / b);
    by_one!(higher, |a, b| if a > b { a } else { b });
    by_one!(lower, |a, b| if a < b { a } else { b });

    #[inline(always)]
    pub(super) fn splat(value: f64) -> Eight {
        [value; 8]
    }

    #[inline(always)]
    pub(super) fn load(rows: &[f64; 8]) -> Eight {
        *rows
    }

    #[inline(always)]
    pub(super) fn store(values: Eight, rows: &mut [f64; 8]) {
        *rows = values;
    }

    #[inline(always)]
    pub(super) fn least(of: Eight) -> f64 {
        of.into_iter().fold(f64::INFINITY, |least, value| if value < least { value } else { least })
    }

    #[inline(always)]
    pub(super) fn equal(of: Eight, value: Eight) -> u32 {
        (0..8).fold(0, |bits, row| bits | (u32::from(of[row] == value[row]) << row))
    }

    #[inline(always)]
    pub(super) fn are_finite(of: Eight) -> bool {
        let odd = |odd, value: f64| odd | (value.to_bits() & super::EXPONENT == super::EXPONENT);
        !of.into_iter().fold(false, odd)
    }
}

/// The bits that are all set in what isn't finite.
const EXPONENT: u64 = 0x7ff0_0000_0000_0000;

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that can't go on should say where")]

    use super::*;

    const ODD: [f64; 8] = [0.0, -0.0, f64::NAN, f64::INFINITY, -1.5, 1e308, f64::MIN_POSITIVE, 3.0];

    #[test]
    fn each_row_gets_what_it_would_get_by_itself() {
        let bits = |lanes: Lanes| {
            let mut rows = [0.0; 8];
            lanes.write(&mut rows);
            rows.map(f64::to_bits)
        };
        for shift in 0..8 {
            let mut other = ODD;
            other.rotate_left(shift);
            let (a, b) = (Lanes::of(&ODD), Lanes::of(&other));
            let alone = |of: fn(f64, f64) -> f64| {
                std::array::from_fn(|row| of(ODD[row], other[row]).to_bits())
            };
            assert_eq!(bits(a + b), alone(|a, b| a + b));
            assert_eq!(bits(a - b), alone(|a, b| a - b));
            assert_eq!(bits(a * b), alone(|a, b| a * b));
            assert_eq!(bits(a / b), alone(|a, b| a / b));
            assert_eq!(bits(a.higher(b)), alone(|a, b| if a > b { a } else { b }));
            assert_eq!(bits(a.lower(b)), alone(|a, b| if a < b { a } else { b }));
            assert_eq!(bits(2.0 * a + 1.0), ODD.map(|a| (2.0 * a + 1.0).to_bits()));
        }
    }

    #[test]
    fn every_row_gets_its_cost_however_many_there_are() {
        for rows in 0..27 {
            let column: Vec<f64> = (0..rows).map(|row| f64::from(row) * 1.5).collect();
            let mut costs: Vec<f64> = (0..rows).map(f64::from).collect();
            Lanes::each([&column], &mut costs, |before, [value]| before - value).unwrap();
            let alone: Vec<f64> = (0..rows).map(|row| f64::from(row) * -0.5).collect();
            assert_eq!(costs, alone);
        }
        let mut costs = [1.0; 9];
        assert!(Lanes::each([&[2.0; 8]], &mut costs, |_, [value]| value).is_err());
        assert_eq!(costs, [1.0; 9]);
    }

    #[test]
    fn what_is_not_a_number_is_not_the_least() {
        let above = Lanes::splat(f64::INFINITY);
        assert_eq!(Lanes::of(&ODD).lower(above).least(), -1.5);
        assert_eq!(Lanes::splat(f64::NAN).lower(above).least(), f64::INFINITY);
        assert_eq!(Lanes::of(&ODD).equal(0.0), 0b11);
        assert_eq!(Lanes::of(&ODD).equal(3.0), 1 << 7);
        assert_eq!(Lanes::of(&ODD).equal(f64::NAN), 0);
        assert!(Lanes::splat(f64::MAX).are_finite());
        for odd in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for place in 0..8 {
                let mut rows = [1.0; 8];
                rows[place] = odd;
                assert!(!Lanes::of(&rows).are_finite());
            }
        }
    }
}
