//! The task that keeps asking one node, and the one that listens to doubts.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, mpsc},
    time::sleep,
};

use crate::base::NodeId;

use super::{
    Shared,
    link::LinkError,
    probe::Probe,
    state::{Host, Login},
    track::Event,
};

/// Between two questions to a node that answers.
const PERIOD: Duration = Duration::from_millis(100);
/// The same while a read waits, and the least whatever the workers ask for.
const HASTY_PERIOD: Duration = Duration::from_millis(3);
/// Between two attempts at a node that is down: doubling from `PERIOD` to this, ± a quarter.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Asks for ever; ends by abortion only.
pub(super) async fn watch(shared: Arc<Shared>, host: Host, login: Login, wake: Arc<Notify>) {
    let mut open = None;
    let mut pause = PERIOD;
    let mut last_words = None;
    let mut haste = shared.haste.subscribe();
    loop {
        let outcome = turn(&shared, &host, &login, &mut open).await;
        let pause_now = match &outcome {
            Ok(_) => {
                pause = PERIOD;
                let hasty = shared.clock.now() < *haste.borrow_and_update();
                if hasty { HASTY_PERIOD } else { PERIOD }
            }
            Err(_) => {
                let jittered = pause.mul_f64(rand::random_range(0.75..1.25));
                pause = (pause * 2).min(LONGEST_PAUSE);
                jittered
            }
        };
        let is_up = outcome.is_ok();
        let event = match outcome {
            Ok(event) => {
                if last_words.take().is_some() {
                    tracing::info!(node = %host, "node answers");
                }
                event
            }
            Err(error) => {
                let words = error.text();
                if last_words.as_ref() != Some(&words) {
                    tracing::warn!(node = %host, error = %words, "node does not answer");
                }
                last_words = Some(words);
                if error.is_crowded() { Event::Crowded } else { Event::Failed }
            }
        };
        shared.observe(&host, event);
        sleep(HASTY_PERIOD.min(pause_now)).await;
        tokio::select! {
            () = sleep(pause_now.saturating_sub(HASTY_PERIOD)) => {}
            () = wake.notified() => {}
            // A node that is down is not what anybody waits for. The sender lives in `shared`.
            Ok(()) = haste.changed(), if is_up => {}
        }
    }
}

/// One answer: on the open connection, or else on a new one. Down means that both failed.
async fn turn(shared: &Shared, host: &Host, login: &Login, open: &mut Option<Probe>) -> Result<Event, LinkError> {
    if let Some(probe) = open.take() {
        match probe.ask(&shared.clock).await {
            Ok(sample) => {
                *open = Some(probe);
                return Ok(Event::Answered(sample));
            }
            Err(error) => {
                tracing::debug!(node = %host, error = %error.text(), "probe connection lost");
                shared.observe(host, Event::Doubted);
            }
        }
    }
    let probe = Probe::connect(host, login).await?;
    let sample = probe.ask(&shared.clock).await?;
    *open = Some(probe);
    Ok(Event::AnsweredAnew(sample))
}

/// Marks doubted nodes and has them probed at once.
pub(super) async fn listen_to_doubts(shared: Arc<Shared>, mut inbox: mpsc::Receiver<NodeId>) {
    while let Some(node) = inbox.recv().await {
        let host = shared.state.lock().host_of(node);
        if let Some((host, wake)) = host {
            shared.observe(&host, Event::Doubted);
            wake.notify_one();
        }
    }
}

impl Shared {
    /// Takes in an event and publishes the views it changes.
    fn observe(&self, host: &Host, event: Event) {
        let summary = self.state.lock().observe(host, event, self.clock.now());
        self.announce(summary);
    }
}
