//! The md5 password method, for clients and servers that still use it.

use md5::{Digest, Md5};
use subtle::ConstantTimeEq;

/// What `pg_authid` keeps: `md5` and the 32 hexadecimal digits of md5(password ‖ user).
pub fn shadow(user: &str, password: &str) -> String {
    format!("md5{}", hex(&[password.as_bytes(), user.as_bytes()]))
}

/// Whether this is the form of [`shadow`]: `md5` and 32 lower-case hexadecimal digits.
pub fn is_shadow(text: &str) -> bool {
    digits(text).is_some()
}

/// The answer to AuthenticationMD5Password; `None` if `shadow` has not the form of one.
pub fn answer(shadow: &str, salt: [u8; 4]) -> Option<String> {
    Some(format!("md5{}", hex(&[digits(shadow)?.as_bytes(), &salt])))
}

/// Whether `given` is the right answer. False too if `shadow` has not the form of one.
pub fn is_right(shadow: &str, salt: [u8; 4], given: &[u8]) -> bool {
    answer(shadow, salt).is_some_and(|right| right.as_bytes().ct_eq(given).into())
}

/// Whether `shadow` is that of this user with this password.
pub fn fits(shadow: &str, user: &str, password: &[u8]) -> bool {
    digits(shadow).is_some_and(|digits| hex(&[password, user.as_bytes()]).as_bytes().ct_eq(digits.as_bytes()).into())
}

fn digits(shadow: &str) -> Option<&str> {
    let digits = shadow.strip_prefix("md5")?;
    let is_hex = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    is_hex.then_some(digits)
}

fn hex(parts: &[&[u8]]) -> String {
    let mut md5 = Md5::new();
    parts.iter().for_each(|part| md5.update(part));
    format!("{:x}", md5.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_those_of_postgresql() {
        // select 'md5' || md5('secret' || 'app'), and the answer to salt 01 02 03 04 made with coreutils' md5sum.
        let shadow = shadow("app", "secret");
        assert_eq!(shadow, "md56a422f785c9e20873908ce25d1736ae2");
        let salt = [1, 2, 3, 4];
        let right = answer(&shadow, salt).unwrap();
        assert_eq!(right, "md5911f527656472583a006e7727877b33e");
        assert!(is_right(&shadow, salt, right.as_bytes()));
        assert!(!is_right(&shadow, [1, 2, 3, 5], right.as_bytes()));
        assert!(!is_right(&shadow, salt, b""));
        assert!(fits(&shadow, "app", b"secret"));
        assert!(!fits(&shadow, "app", b"Secret") && !fits(&shadow, "ap", b"psecret") && !fits("", "app", b"secret"));
        assert!(!is_right("", salt, b"md5"));
    }

    #[test]
    fn only_the_catalog_form_is_a_shadow() {
        for text in ["", "md5", "md5xyz", "MD5d41d8cd98f00b204e9800998ecf8427e", "md5d41d8cd98f00b204e9800998ecf8427"] {
            assert!(!is_shadow(text), "{text}");
            assert_eq!(answer(text, [0; 4]), None);
        }
        assert!(is_shadow("md5d41d8cd98f00b204e9800998ecf8427e"));
    }
}
