//! Pass `constants`: floats that are written by their bits, `0f3F800000`, as decimal numbers, or by the name that
//! mathematics has for them. Their value is the same, and the proof compares values.

use super::body::{Body, Node, Piece, each_block};

/// Numbers that have a name: bits, as `f32`, value.
const NAMED: [(u32, &str, &str); 6] = [
    (0x3fb8_aa3b, "LOG2_E", "1.442695"),
    (0xbfb8_aa3b, "NEG_LOG2_E", "-1.442695"),
    (0x3f31_7218, "LN_2", "0.6931472"),
    (0x4049_0fdb, "PI", "3.1415927"),
    (0x3f35_04f3, "FRAC_1_SQRT_2", "0.70710677"),
    (0x7f7f_ffff, "MAX", "3.4028235e38"),
];

/// A person reads no longer number.
const LONGEST: usize = 19;

/// Returns how many numbers it made readable.
pub(super) fn pass(body: &mut Body) -> usize {
    let mut made = 0;
    let mut nodes = std::mem::take(&mut body.nodes);
    each_block(&mut nodes, &mut |block| {
        for node in block.iter_mut() {
            let Node::Inst(inst) = node else { continue };
            let ty = inst.name.rsplit('.').next().unwrap_or_default().to_owned();
            for operand in &mut inst.operands {
                let [Piece::Text(text)] = operand.as_mut_slice() else { continue };
                if let Some(new) = readable(body, &ty, text) {
                    *text = new;
                    made += 1;
                }
            }
        }
    });
    body.nodes = nodes;
    made
}

/// A literal of this type as a person writes it.
fn readable(body: &mut Body, ty: &str, text: &str) -> Option<String> {
    let digits = text.get(2..)?;
    let decimal = match (ty, text.get(..2)?) {
        ("f32", "0f" | "0F") if digits.len() == 8 => {
            let bits = u32::from_str_radix(digits, 16).ok()?;
            let named = NAMED.iter().find(|(known, name, _)| *known == bits && !body.taken.contains(name));
            if let Some((_, name, value)) = named {
                body.constants.insert((*name).to_owned(), (*value).to_owned());
                return Some((*name).to_owned());
            }
            format!("{:?}", f32::from_bits(bits))
        }
        ("f64", "0d" | "0D") if digits.len() == 16 => {
            format!("{:?}", f64::from_bits(u64::from_str_radix(digits, 16).ok()?))
        }
        _ => return None,
    };
    // No infinities, no exponents.
    let plain = decimal.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-'));
    (plain && decimal.len() <= LONGEST).then_some(decimal)
}
