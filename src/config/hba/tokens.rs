//! A line's fields: words between blanks, with commas making lists and quotes making names of keywords (hba.c, `next_token`).

/// A word and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// It began with a quote: a name, whatever it says.
    pub(super) quoted: bool,
    pub(super) place: Place,
}

/// Line and column, both from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// Words that commas tie together; never empty.
pub(super) type Field = Vec<Word>;

/// A line, made of several in the file if they end in a backslash.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) fields: Vec<Field>,
    /// Where it ends.
    pub(super) end: Place,
}

/// All lines that hold something.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut chars: Vec<(char, Place)> = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let joined = raw.strip_suffix('\\');
        let kept = joined.unwrap_or(raw).chars().enumerate();
        chars.extend(kept.map(|(column, c)| (c, Place { line, column: column + 1 })));
        if joined.is_some() {
            continue;
        }
        let end = Place { line, column: raw.chars().count() + 1 };
        let fields = fields(&std::mem::take(&mut chars));
        if !fields.is_empty() {
            lines.push(Line { fields, end });
        }
    }
    let end = chars.last().map(|(_, place)| Place { column: place.column + 1, ..*place });
    let fields = fields(&chars);
    if let Some(end) = end.filter(|_| !fields.is_empty()) {
        lines.push(Line { fields, end });
    }
    lines
}

fn fields(chars: &[(char, Place)]) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut field = Field::new();
    let mut at = 0;
    loop {
        let (word, comma, next) = word(chars, at);
        at = next;
        match word {
            Some(word) => field.push(word),
            None if at >= chars.len() => break,
            None => {}
        }
        if !comma && !field.is_empty() {
            fields.push(std::mem::take(&mut field));
        }
    }
    if !field.is_empty() {
        fields.push(field);
    }
    fields
}

/// The next word, whether a comma ends it, and where the one after it may begin. `None` at the end of the line or at a comment.
fn word(chars: &[(char, Place)], from: usize) -> (Option<Word>, bool, usize) {
    let rest = chars.get(from..).unwrap_or_default();
    let skipped = rest.iter().take_while(|(c, _)| is_blank(*c) || *c == ',').count();
    let mut at = from + skipped;
    let Some((first, place)) = chars.get(at).copied() else { return (None, false, chars.len()) };
    let mut word = Word { text: String::new(), quoted: first == '"', place };
    let (mut in_quote, mut was_quote, mut comma) = (false, false, false);
    while let Some((c, _)) = chars.get(at).copied() {
        if is_blank(c) && !in_quote {
            break;
        }
        if c == '#' && !in_quote {
            at = chars.len();
            break;
        }
        at += 1;
        if c == ',' && !in_quote {
            comma = true;
            break;
        }
        if c != '"' || was_quote {
            word.text.push(c);
        }
        was_quote = c == '"' && in_quote && !was_quote;
        if c == '"' {
            in_quote = !in_quote;
        }
    }
    let some = word.quoted || !word.text.is_empty();
    (some.then_some(word), comma, at)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r')
}
