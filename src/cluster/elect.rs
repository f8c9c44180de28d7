//! Which node takes the writes. Pure.

/// How strongly a node claims to be the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Claim {
    /// Down, a replica, or not known.
    None,
    /// It answers that it is not in recovery.
    Answers,
    /// The operator says so, and it is not down.
    Configured,
}

/// A node as the election sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) claim: Claim,
    /// The timeline it writes.
    pub(super) timeline: Option<u32>,
}

/// The outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Election {
    /// This index.
    Primary(usize),
    /// Nobody claims it.
    Vacant,
    /// Several claim it with equal right; none was the primary before. Nobody gets writes.
    Split,
}

/// Elects among `nodes`. `present`: who was it. `highest`: the highest timeline any accepted primary of this system
/// wrote: who writes an older one has missed a promotion.
pub(super) fn elect(nodes: &[Candidate], present: Option<usize>, highest: Option<u32>) -> Election {
    let outdated = |node: &Candidate| matches!((node.timeline, highest), (Some(own), Some(high)) if own < high);
    let strongest = nodes.iter().filter(|node| !outdated(node)).map(|node| node.claim).max();
    let Some(strongest) = strongest.filter(|claim| *claim > Claim::None) else { return Election::Vacant };
    let mut rivals: Vec<(usize, Option<u32>)> = nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| node.claim == strongest && !outdated(node))
        .map(|(index, node)| (index, node.timeline))
        .collect();
    if rivals.iter().all(|(_, timeline)| timeline.is_some()) {
        let newest = rivals.iter().map(|(_, timeline)| *timeline).max().flatten();
        rivals.retain(|(_, timeline)| *timeline == newest);
    }
    match (&rivals[..], present) {
        ([], _) => Election::Vacant,
        ([(only, _)], _) => Election::Primary(*only),
        (several, Some(present)) if several.iter().any(|(index, _)| *index == present) => Election::Primary(present),
        _ => Election::Split,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writer_or_none() {
        // Nodes: `-` no claim, `a<timeline>` answers, `c<timeline>` configured; `?` unknown timeline.
        let cases = [
            ("- -", None, None, Election::Vacant),
            ("- a1", None, None, Election::Primary(1)),
            ("a1 a2", Some(0), None, Election::Primary(1)),
            ("a1 a1", Some(0), None, Election::Primary(0)),
            ("a1 a1", Some(1), None, Election::Primary(1)),
            ("a1 a1", None, None, Election::Split),
            ("a? a2", None, None, Election::Split),
            ("a? a2", Some(0), None, Election::Primary(0)),
            ("a1 a1 -", Some(2), None, Election::Split),
            ("a1 -", None, Some(2), Election::Vacant),
            ("a2 -", None, Some(2), Election::Primary(0)),
            ("a? -", None, Some(2), Election::Primary(0)),
            ("a3 c1", Some(0), None, Election::Primary(1)),
            ("c? c?", None, None, Election::Split),
            ("", None, None, Election::Vacant),
        ];
        for (text, present, highest, expected) in cases {
            let nodes: Vec<Candidate> = text
                .split_whitespace()
                .map(|word| Candidate {
                    claim: match word.as_bytes()[0] {
                        b'a' => Claim::Answers,
                        b'c' => Claim::Configured,
                        _ => Claim::None,
                    },
                    timeline: word[1..].parse().ok(),
                })
                .collect();
            assert_eq!(elect(&nodes, present, highest), expected, "{text} {present:?} {highest:?}");
        }
    }
}
