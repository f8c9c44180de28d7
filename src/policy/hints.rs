//! Which hints of a text are believed.

use crate::{
    config::rules::Hint,
    sql::{HintTarget, Hints},
};

/// The rights of a user: `users[].hints`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Believed<'a>(pub Option<&'a [Hint]>);

impl Believed<'_> {
    /// Without a list those hints are allowed that only tighten.
    fn allows(self, hint: Hint) -> bool {
        self.0.map_or(hint != Hint::Replica, |listed| listed.contains(&hint))
    }
}

/// The hints of a text that its user may give.
pub fn believe(hints: Hints, rights: Believed<'_>) -> Hints {
    if hints == Hints::default() {
        return hints;
    }
    let target = hints.target.filter(|target| {
        rights.allows(match target {
            HintTarget::Primary => Hint::Primary,
            HintTarget::Replica => Hint::Replica,
        })
    });
    Hints {
        target,
        timeout: hints.timeout.filter(|_| rights.allows(Hint::Timeout)),
        no_cache: hints.no_cache && rights.allows(Hint::NoCache),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_user_is_believed_what_it_may_say() {
        let all = |target| Hints { target: Some(target), timeout: Some(Duration::from_secs(1)), no_cache: true };
        let shown = |target: HintTarget, rights: Option<&[Hint]>| {
            let hints = believe(all(target), Believed(rights));
            (hints.target, hints.timeout.is_some(), hints.no_cache)
        };
        let (primary, replica) = (HintTarget::Primary, HintTarget::Replica);
        assert_eq!(shown(primary, None), (Some(primary), true, true));
        assert_eq!(shown(replica, None), (None, true, true));
        assert_eq!(shown(primary, Some(&[])), (None, false, false));
        assert_eq!(shown(replica, Some(&[Hint::Replica])), (Some(replica), false, false));
        assert_eq!(shown(replica, Some(&[Hint::Primary, Hint::Timeout])), (None, true, false));
        assert_eq!(shown(primary, Some(&[Hint::Primary, Hint::NoCache])), (Some(primary), false, true));
    }
}
