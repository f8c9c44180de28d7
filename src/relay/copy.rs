//! Messages that a client sends into a COPY and that are no data. A server in COPY ignores Sync and breaks off at most others; one whose
//! COPY has failed takes them like any message. Which of the two has read one, only the server knows.

use memchr::memmem;

use super::{Ack, Feed, NO_SUCH, Names, Outgoing, Owed, Show, What};
use crate::wire::frontend;

/// Why a COPY is failed where a message comes that has no place in it.
const MISPLACED: &str = "pgsluice: unexpected message";

/// What came into the present COPY beside data.
#[derive(Debug, Default)]
pub struct Strays {
    /// Syncs that were passed on to the server.
    syncs: u32,
    /// What has the server say how many of them it has answered, if that is to be asked.
    asking: Option<Asking>,
    /// How often it has said ReadyForQuery since.
    answered: u32,
    /// One of the client's has ended its group.
    pub group_over: bool,
    /// The message that has no place; the server was told that the COPY fails instead.
    misplaced: Option<u8>,
    /// And it was still in its COPY.
    pub(super) lost_place: bool,
}

/// How to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    /// The server goes on anyway: CloseComplete comes behind the last of its answers.
    Simple,
    /// It may ignore all but Sync, so one of ours comes first.
    Extended,
}

impl Strays {
    /// A Sync travels on to the server.
    pub(super) fn pass_sync(&mut self) {
        self.syncs += 1;
    }

    /// A message of this tag comes next. A server whose COPY has failed ignores what is sent in front of it; one in COPY shows by its
    /// error that it got that far.
    pub(super) fn misplace(&mut self, tag: u8, out: &mut Vec<u8>) {
        frontend::copy_fail(out, MISPLACED);
        self.misplaced = Some(tag);
    }

    /// The COPY has ended well, so every Sync in it was ignored.
    pub(super) fn end_well(&mut self) {
        self.syncs = 0;
    }

    /// What an error with this body has to say, if it is the one that [`Strays::misplace`] has made.
    pub(super) fn words_of(&mut self, body: &[u8]) -> Option<String> {
        let tag = self.misplaced.take()?;
        self.lost_place = memmem::find(body, MISPLACED.as_bytes()).is_some();
        self.lost_place.then(|| format!("unexpected message type 0x{tag:02X} during COPY from stdin"))
    }

    /// Does one more ReadyForQuery of [`What::Strays`] answer a Sync of the client's? All say the same, so it does not matter which of
    /// them is the answer to ours.
    pub(super) fn answers(&mut self, show: Show) -> bool {
        self.answered += 1;
        show == Show::Pass || self.answered > 1
    }

    /// All answers were there. Has the client's group come to its end?
    pub(super) fn settle(&mut self, show: Show) {
        self.group_over = show == Show::Swallow && self.answered > 1;
    }

    /// Asks the server what is to be asked, once it has all of the message before.
    pub fn ask(&mut self, outgoing: &mut Outgoing) {
        let Some(asking) = self.asking.take_if(|_| outgoing.stream == 0) else { return };
        if asking == Asking::Extended {
            frontend::sync(&mut outgoing.bytes);
        }
        frontend::close(&mut outgoing.bytes, frontend::What::Statement, NO_SUCH);
        frontend::flush(&mut outgoing.bytes);
    }
}

impl Feed {
    /// The request in front has failed. Syncs in its COPY may have been read before that or after it.
    pub(super) fn count_strays(&mut self, what: Option<What>) {
        if std::mem::take(&mut self.strays.syncs) == 0 || self.fatal.is_some() {
            return;
        }
        let (asking, show) = match what {
            Some(What::Query) => (Asking::Simple, Show::Pass),
            _ => (Asking::Extended, Show::Swallow),
        };
        self.owe_strays(asking, show);
    }

    /// Nobody hears how the COPY ends. True: what `Strays::ask` asks then ends the group as well.
    pub fn count_unheard_strays(&mut self) -> bool {
        let any = std::mem::take(&mut self.strays.syncs) > 0;
        if any {
            self.owe_strays(Asking::Extended, Show::Swallow);
        }
        any
    }

    fn owe_strays(&mut self, asking: Asking, show: Show) {
        self.strays.asking = Some(asking);
        self.queue.push(Owed::Reply { what: What::Strays, show, ack: Ack::Nothing, names: Names::Untouched });
    }
}
