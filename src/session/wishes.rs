//! What a server would make of a parameter in the startup packet, where that is certain without asking one: a login need not wait for a
//! server that is busy. Anything not certain is not here, and is asked.

/// What `current_setting` would say of `name` after it was set to `value`; `reported` are the parameters the servers report to a
/// client without wishes. `None`: only a server knows. `name` is in lower case.
pub(super) fn shown(name: &str, value: &str, reported: &[(Box<str>, Box<str>)]) -> Option<String> {
    let default = |name: &str| reported.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| &**value);
    let one_of = |words: &[&str]| words.contains(&value).then(|| value.to_owned());
    match name {
        "client_encoding" => {
            // Names are compared without anything but letters and digits (encnames.c). Conversions exist from UTF8 to UTF8.
            let letters: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
            let fits =
                value.is_ascii() && letters.eq_ignore_ascii_case("utf8") && default("server_encoding") == Some("UTF8");
            fits.then(|| "UTF8".to_owned())
        }
        "datestyle" => date_style(value, default(name)?),
        "timezone" => one_of(&["UTC", "GMT"]).or_else(|| (default(name)? == value).then(|| value.to_owned())),
        "intervalstyle" => one_of(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
        "extra_float_digits" => {
            let digits: i8 = value.parse().ok().filter(|digits| (-15..=3).contains(digits))?;
            (digits.to_string() == value).then(|| value.to_owned())
        }
        "statement_timeout" | "lock_timeout" | "idle_in_transaction_session_timeout" => time(value),
        "search_path" => is_plain_path(value).then(|| value.to_owned()),
        "bytea_output" => one_of(&["hex", "escape"]),
        "client_min_messages" => {
            one_of(&["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"])
        }
        "default_transaction_isolation" => {
            one_of(&["serializable", "repeatable read", "read committed", "read uncommitted"])
        }
        "synchronous_commit" => one_of(&["on", "off", "local", "remote_write", "remote_apply"]),
        "default_transaction_read_only" | "default_transaction_deferrable" | "standard_conforming_strings" => {
            one_of(&["on", "off"])
        }
        _ => None,
    }
}

/// `ISO`, and an order of day, month and year if one is given; else that of the default stays (check_datestyle).
fn date_style(value: &str, default: &str) -> Option<String> {
    let (style, order) = match value.split_once(',') {
        Some((style, order)) => (style, order.trim()),
        None => (value, default.split_once(',')?.1.trim()),
    };
    let order = order.to_ascii_uppercase();
    let fits = style.eq_ignore_ascii_case("iso") && ["MDY", "DMY", "YMD"].contains(&order.as_str());
    fits.then(|| format!("ISO, {order}"))
}

/// Milliseconds, in the largest unit that leaves none over (convert_int_from_base_unit).
fn time(value: &str) -> Option<String> {
    let ms: i32 = value.parse().ok().filter(|ms| *ms >= 0)?;
    if ms.to_string() != value {
        return None;
    }
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
    let fits = units.into_iter().find(|(unit, _)| ms > 0 && ms % unit == 0);
    Some(fits.map_or_else(|| "0".to_owned(), |(unit, name)| format!("{}{name}", ms / unit)))
}

/// Names that need no quotes, or quoted ones without quotes inside, with commas between them.
fn is_plain_path(value: &str) -> bool {
    value.split(',').all(|name| {
        let name = name.trim_matches(' ');
        match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            Some(inside) => (1..64).contains(&inside.len()) && inside.is_ascii() && !inside.contains('"'),
            None => {
                let letters = |b: u8| b.is_ascii_lowercase() || b == b'_';
                let first = name.bytes().next().is_some_and(letters);
                first && name.len() < 64 && name.bytes().all(|b| letters(b) || b.is_ascii_digit())
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_certain_and_what_is_not() {
        let reported: Vec<(Box<str>, Box<str>)> =
            [("DateStyle", "ISO, DMY"), ("TimeZone", "Asia/Seoul"), ("server_encoding", "UTF8")]
                .map(|(name, value)| (name.into(), value.into()))
                .into();
        for (name, value, wanted) in [
            ("client_encoding", "utf-8", Some("UTF8")),
            ("client_encoding", "LATIN1", None),
            ("client_encoding", "UNICODE", None),
            ("datestyle", "ISO", Some("ISO, DMY")),
            ("datestyle", "iso, ymd", Some("ISO, YMD")),
            ("datestyle", "German", None),
            ("datestyle", "ISO, MDY, x", None),
            ("timezone", "UTC", Some("UTC")),
            ("timezone", "Asia/Seoul", Some("Asia/Seoul")),
            ("timezone", "asia/seoul", None),
            ("extra_float_digits", "3", Some("3")),
            ("extra_float_digits", "4", None),
            ("extra_float_digits", "03", None),
            ("statement_timeout", "0", Some("0")),
            ("statement_timeout", "1500", Some("1500ms")),
            ("statement_timeout", "90000", Some("90s")),
            ("lock_timeout", "120000", Some("2min")),
            ("statement_timeout", "5s", None),
            ("statement_timeout", "2147483648", None),
            ("search_path", "\"$user\", public", Some("\"$user\", public")),
            ("search_path", "a b", None),
            ("search_path", "", None),
            ("search_path", "Public", None),
            ("bytea_output", "hex", Some("hex")),
            ("role", "app", None),
            ("work_mem", "1", None),
        ] {
            assert_eq!(shown(name, value, &reported).as_deref(), wanted, "{name} = {value}");
        }
    }
}
