//! What a byte may begin or continue (scan.l's character classes), as one table.

/// What a byte begins when it stands at the start of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Space,
    Identifier,
    /// b, e, n, u, x: an identifier, unless a quote follows.
    LiteralLetter,
    Digit,
    Quote,
    NameQuote,
    Dollar,
    Operator,
    Dot,
    Colon,
    Other,
}

const CLASSES: [Class; 256] = classes();

const fn classes() -> [Class; 256] {
    let mut table = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => Class::Space,
            b'b' | b'e' | b'n' | b'u' | b'x' | b'B' | b'E' | b'N' | b'U' | b'X' => Class::LiteralLetter,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80..=0xff => Class::Identifier,
            b'0'..=b'9' => Class::Digit,
            b'\'' => Class::Quote,
            b'"' => Class::NameQuote,
            b'$' => Class::Dollar,
            b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' => Class::Operator,
            b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' => Class::Operator,
            b'.' => Class::Dot,
            b':' => Class::Colon,
            _ => Class::Other,
        };
        byte += 1;
    }
    table
}

#[inline]
pub(super) fn class_of(byte: u8) -> Class {
    CLASSES[byte as usize]
}

const IDENTIFIER: [bool; 256] = identifier();

const fn identifier() -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(CLASSES[byte], Class::Identifier | Class::LiteralLetter | Class::Digit | Class::Dollar);
        byte += 1;
    }
    table
}

/// May it stand inside an identifier?
#[inline]
pub(super) fn is_identifier(byte: u8) -> bool {
    IDENTIFIER[byte as usize]
}

/// May it stand inside the tag of a dollar quote, after the first byte?
#[inline]
pub(super) fn is_tag(byte: u8) -> bool {
    matches!(class_of(byte), Class::Identifier | Class::LiteralLetter | Class::Digit)
}

#[inline]
pub(super) fn is_space(byte: u8) -> bool {
    class_of(byte) == Class::Space
}

#[inline]
pub(super) fn is_operator(byte: u8) -> bool {
    class_of(byte) == Class::Operator
}

/// Operator characters that SQL itself does not use: with one of them an operator may end in + or -.
#[inline]
pub(super) fn is_special_operator(byte: u8) -> bool {
    matches!(byte, b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'%')
}
