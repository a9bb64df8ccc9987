//! Faults that tests plant on purpose, to prove that the simulation and the tests would find them. Ordinary builds have none:
//! there the switch is the constant `false`.

/// One planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "testing"), expect(dead_code, unreachable_pub, reason = "nobody can plant anything then"))]
pub enum Mutant {
    /// A batch is acknowledged before it is stored.
    AckBeforeCommit,
    /// Every lease is acknowledged as the first.
    AckWithoutGeneration,
    /// What could not be stored counts as stored.
    FailedStoreIgnored,
    /// Of a batch only the first delivery is stored.
    BatchCutShort,
    /// With the inbox full of ordinary input, results are not leased either.
    ResultsWaitForRoom,
    /// Old is what is old by the local clock alone.
    ForgottenByLocalClock,
    /// A known id that comes again starts anew.
    PutOverwritesState,
    /// A withdrawal closes nothing.
    WithdrawalIgnored,
    /// The content goes when the row is marked for the runtime.
    ScrubBeforeAccept,
    /// The order is that of arrival.
    OrderOfArrival,
    /// A row is handed over without having been marked.
    MarkSkipped,
    /// A row is marked accepted before it is handed over.
    AcceptedBeforeSubmit,
    /// No answer in time counts as a refusal.
    TimeoutIsRefusal,
    /// What the runtime took into memory counts as accepted.
    TakenIsAccepted,
    /// What the acknowledgement said is not stored.
    EvidenceForgotten,
    /// A steer that found no turn is not put back.
    TurnEndedForgotten,
    /// What an earlier run left is handed over again without asking.
    ReconcileSkippedAtStart,
    /// "Can't be said" counts as "it does not have it".
    UnknownIsRetry,
    /// "It does not have it" counts as "it has it".
    RetryIsAccepted,
    /// An answer counts although the row moved on since the question.
    LateAnswerCounts,
    /// A verdict on an earlier attempt counts for the next.
    EarlierVerdictCounts,
    /// Proof that got lost is waited for without end.
    LostProofWaitedFor,
    /// Nothing follows from an interruption.
    InterruptionIgnored,
    /// Nothing follows from an interruption for a call that is under way.
    InterruptionDuringCallIgnored,
    /// What came back does not outdate a decision that was made before.
    ReturnIgnored,
    /// A refused input is tried for ever.
    NeverHeld,
    /// What could not be recorded is forgotten.
    FailedWriteForgotten,
    /// A retry time is believed, however far away.
    FarRetryTimeBelieved,
    /// An undecided row blocks nothing.
    UndecidedBlocksNothing,
    /// Two inputs may be on their way at once.
    TwoAtOnce,
    /// Results stand in line with ordinary input.
    ResultsInLine,
    /// A withdrawal goes before the request that it is about is settled.
    WithdrawalOvertakes,
    /// The folder's locks are not taken.
    LockNotTaken,
    /// What a failed transaction did stays.
    FailedTransactionKept,
}

#[cfg(feature = "testing")]
impl Mutant {
    /// All of them.
    pub const ALL: [Self; 34] = [
        Self::AckBeforeCommit,
        Self::AckWithoutGeneration,
        Self::FailedStoreIgnored,
        Self::BatchCutShort,
        Self::ResultsWaitForRoom,
        Self::ForgottenByLocalClock,
        Self::PutOverwritesState,
        Self::WithdrawalIgnored,
        Self::ScrubBeforeAccept,
        Self::OrderOfArrival,
        Self::MarkSkipped,
        Self::AcceptedBeforeSubmit,
        Self::TimeoutIsRefusal,
        Self::TakenIsAccepted,
        Self::EvidenceForgotten,
        Self::TurnEndedForgotten,
        Self::ReconcileSkippedAtStart,
        Self::UnknownIsRetry,
        Self::RetryIsAccepted,
        Self::LateAnswerCounts,
        Self::EarlierVerdictCounts,
        Self::LostProofWaitedFor,
        Self::InterruptionIgnored,
        Self::InterruptionDuringCallIgnored,
        Self::ReturnIgnored,
        Self::NeverHeld,
        Self::FailedWriteForgotten,
        Self::FarRetryTimeBelieved,
        Self::UndecidedBlocksNothing,
        Self::TwoAtOnce,
        Self::ResultsInLine,
        Self::WithdrawalOvertakes,
        Self::LockNotTaken,
        Self::FailedTransactionKept,
    ];
}

#[cfg(feature = "testing")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Plants a fault in everything that runs on this thread, or takes it away. An inbox that is opened here takes it along to its own thread.
#[cfg(feature = "testing")]
pub fn plant(mutant: Option<Mutant>) {
    PLANTED.set(mutant);
}

/// The fault that is planted on this thread.
#[cfg(feature = "testing")]
pub fn planted() -> Option<Mutant> {
    PLANTED.get()
}

#[cfg(feature = "testing")]
pub(crate) fn on(mutant: Mutant) -> bool {
    PLANTED.get() == Some(mutant)
}

#[cfg(not(feature = "testing"))]
pub(crate) const fn on(_mutant: Mutant) -> bool {
    false
}
