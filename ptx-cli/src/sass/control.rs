//! The part of an instruction's encoding that the compiler schedules with: 21 bits from bit 105 on, on every chip since Volta.
//!
//! The layout is known from published disassemblers (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018).

/// The decoded bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Control {
    /// Cycles until the warp may issue its next instruction.
    pub stall: u8,
    /// True if the scheduler should prefer another warp.
    pub yields: bool,
    /// The barrier (0 to 5) that opens when the result is written.
    pub write: Option<u8>,
    /// The barrier that opens when the operands are read.
    pub read: Option<u8>,
    /// The barriers that must be open before it issues, a bit each.
    pub wait: u8,
    /// The operands that stay in the reuse cache, a bit each.
    pub reuse: u8,
}

impl Control {
    /// Decodes the upper 64 bits of an encoding.
    pub(super) fn decode(high: u64) -> Control {
        let field = |at: u32, bits: u32| (high >> (41 + at) & ((1 << bits) - 1)) as u8;
        let barrier = |at: u32| Some(field(at, 3)).filter(|barrier| *barrier != 7);
        Control {
            stall: field(0, 4),
            yields: field(4, 1) == 0,
            write: barrier(5),
            read: barrier(8),
            wait: field(11, 6),
            reuse: field(17, 4),
        }
    }

    /// The barriers that it waits for.
    pub(super) fn waits(self) -> impl Iterator<Item = u8> {
        (0..6).filter(move |barrier| self.wait >> barrier & 1 == 1)
    }

    /// `B--2---:R-:W-:Y:S04`, as disassemblers of the community print it.
    pub(super) fn text(self) -> String {
        let wait: String = (0..6).map(|b| if self.wait >> b & 1 == 1 { char::from(b'0' + b) } else { '-' }).collect();
        let barrier = |barrier: Option<u8>| barrier.map_or('-', |b| char::from(b'0' + b));
        let (read, write, yields) = (barrier(self.read), barrier(self.write), if self.yields { 'Y' } else { '-' });
        format!("B{wait}:R{read}:W{write}:{yields}:S{:02}", self.stall)
    }
}

#[cfg(test)]
mod tests {
    use super::Control;

    #[test]
    fn bits_are_decoded() {
        let load = Control::decode(0x000e_a800_0c1e_1900);
        assert_eq!(load, Control { stall: 4, write: Some(2), ..Control::default() });
        let fma = Control::decode(0x004f_c800_0000_00ff);
        assert_eq!(fma, Control { stall: 4, yields: true, wait: 1 << 2, ..Control::default() });
        assert_eq!(fma.text(), "B--2---:R-:W-:Y:S04");
        assert_eq!(fma.waits().collect::<Vec<_>>(), [2]);
        assert!(Control::decode(0x000f_c400_0000_001b).yields && !load.yields);
    }
}
