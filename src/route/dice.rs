//! Cheap chance and turns for choosing among equals; one per worker, never shared.

/// A xorshift64* generator (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled") and a
/// turn counter. Good enough for load balancing, not for secrets.
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
    turn: u64,
}

impl Dice {
    /// Seeds it; workers should use different seeds. Any number is fine.
    pub fn seeded(seed: u64) -> Self {
        // Zero is the one state xorshift never leaves.
        Self { state: seed ^ 0x9e37_79b9_7f4a_7c15 | 1, turn: seed }
    }

    /// A number in `0..sides`; 0 if there are no sides.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let number = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d);
        // Multiply-shift instead of a division; the bias is below 2^-32 for any sane number of sides.
        ((u128::from(number) * u128::from(sides)) >> 64) as u64
    }

    /// Whose turn it is, counting on, in `0..sides`; 0 if there are no sides.
    pub fn turn(&mut self, sides: u64) -> u64 {
        self.turn = self.turn.wrapping_add(1);
        self.turn.checked_rem(sides).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_comes_up_and_none_beyond() {
        for seed in [0, 1, 42, u64::MAX, 0x9e37_79b9_7f4a_7c15] {
            let mut dice = Dice::seeded(seed);
            let mut seen = [0u32; 6];
            for _ in 0..6000 {
                seen[dice.roll(6) as usize] += 1;
            }
            assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seed}: {seen:?}");
            assert_eq!((dice.roll(0), dice.turn(0), dice.roll(1)), (0, 0, 0));
        }
    }

    #[test]
    fn turns_go_round() {
        let mut dice = Dice::seeded(2);
        assert_eq!([(); 4].map(|()| dice.turn(3)), [0, 1, 2, 0]);
    }
}
