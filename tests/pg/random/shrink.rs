//! From a script that fails to a smaller one that fails as well.

use super::script::{End, Script};

/// Scripts tried at most; each takes a proxy's start.
const ATTEMPTS: usize = 150;

/// The smallest script found for which `fails` says why. `None` if the whole script does not fail by itself.
pub fn shrink(script: &Script, fails: impl Fn(&Script) -> Option<String>) -> Option<(Script, String)> {
    let mut why = fails(script)?;
    let mut least = script.clone();
    let mut left = ATTEMPTS;
    loop {
        let before = least.clone();
        for candidate in 0.. {
            let Some(smaller) = smaller(&least, candidate) else { break };
            // What was taken away before may have moved other things into this place.
            let mut here = Some(smaller);
            while let Some(smaller) = here.filter(|smaller| *smaller != least) {
                if left == 0 {
                    return Some((least, why));
                }
                left -= 1;
                let Some(reason) = fails(&smaller) else { break };
                (least, why) = (smaller, reason);
                here = self::smaller(&least, candidate);
            }
        }
        if least == before {
            return Some((least, why));
        }
    }
}

/// The script without one thing; the things are numbered: the end, the login, halves, steps, cuts, single messages.
fn smaller(script: &Script, candidate: usize) -> Option<Script> {
    let mut out = script.clone();
    let steps = script.steps.len();
    let mut n = candidate;
    if n == 0 {
        out.end = End::Terminate(Vec::new());
        return Some(out);
    }
    n -= 1;
    if n == 0 {
        out.login.clear();
        return Some(out);
    }
    n -= 1;
    if n == 0 {
        out.steps.drain(..steps / 2);
        return Some(out);
    }
    n -= 1;
    if n == 0 {
        out.steps.truncate(steps.div_ceil(2));
        return Some(out);
    }
    n -= 1;
    if n < steps {
        // From the end, so that what stays keeps its place.
        out.steps.remove(steps - 1 - n);
        return Some(out);
    }
    n -= steps;
    for step in &mut out.steps {
        let things = step.messages.len() + 1;
        if n < things {
            if n == 0 {
                step.cut = None;
            } else {
                step.messages.remove(n - 1);
            }
            out.steps.retain(|step| !step.messages.is_empty());
            return Some(out);
        }
        n -= things;
    }
    None
}
