//! Notifies the workers of this process that a job was halted.

use tokio::sync::broadcast;

use crate::ids::JobId;

#[derive(Clone)]
pub struct Interrupts(broadcast::Sender<JobId>);

impl Default for Interrupts {
    fn default() -> Self {
        Self(broadcast::Sender::new(64))
    }
}

impl Interrupts {
    /// Makes the workers of this process check the job now instead of at their next heartbeat.
    pub fn interrupt(&self, job: &JobId) {
        // No receiver means that no worker of this process has a page of the job.
        let _ = self.0.send(job.clone());
    }

    /// Completes at the next call of [`Interrupts::interrupt`] for `job`.
    pub fn interrupted(&self, job: &JobId) -> impl Future<Output = ()> + Send + 'static {
        let mut receiver = self.0.subscribe();
        let job = job.clone();
        async move {
            loop {
                match receiver.recv().await {
                    Ok(interrupted) if interrupted == job => return,
                    Ok(_) => {}
                    // Some interrupts were dropped; one of them may have been for this job.
                    Err(broadcast::error::RecvError::Lagged(_)) => return,
                    Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                }
            }
        }
    }
}
