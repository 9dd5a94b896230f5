//! Messages and reservations of a queue that the program holds: each keeps its end alive, so that the ends and they may be destroyed in
//! any order.

#![allow(unsafe_code)]

use forebay::queue::{Burst, Message, Receiver, ReservedMessage, Sender};
use std::{mem::transmute, ops::Deref, ops::DerefMut, sync::Arc};

/// Something that an end lends, with the end. The fields are dropped in this order.
pub struct Loan<T, End> {
    lent: T,
    _end: Arc<End>,
}

pub type OwnedMessage = Loan<Message<'static>, Receiver>;
pub type OwnedBurst = Loan<Burst<'static>, Receiver>;
pub type OwnedReservation = Loan<ReservedMessage<'static>, Sender>;

macro_rules! lends {
    ($($name:ident: $lent:ident, $end:ident;)*) => {$(
        /// Borrows from the end, and keeps what it lends together with it.
        pub fn $name<E>(
            end: &Arc<$end>,
            lend: impl for<'a> FnOnce(&'a $end) -> Result<$lent<'a>, E>,
        ) -> Result<Loan<$lent<'static>, $end>, E> {
            let lent = lend(end)?;
            // SAFETY: it borrows the end, which lies in an `Arc`: it does not move, and nothing borrows it exclusively. The loan has a
            // reference to the `Arc`, which it drops after what is lent, and gives access to that only within a borrow of itself.
            let lent = unsafe { transmute::<$lent<'_>, $lent<'static>>(lent) };
            Ok(Loan { lent, _end: end.clone() })
        }
    )*};
}

lends! {
    message: Message, Receiver;
    burst: Burst, Receiver;
    reservation: ReservedMessage, Sender;
}

impl<T: Deref<Target = [u8]>, End> Deref for Loan<T, End> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.lent
    }
}

impl<T: DerefMut<Target = [u8]>, End> DerefMut for Loan<T, End> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.lent
    }
}

impl OwnedMessage {
    pub fn sequence(&self) -> u64 {
        self.lent.sequence()
    }

    pub fn is_redelivered(&self) -> bool {
        self.lent.is_redelivered()
    }
}

impl OwnedBurst {
    /// The number and the bytes of each message.
    pub fn messages(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.lent.iter()
    }
}

impl OwnedReservation {
    pub fn sequence(&self) -> u64 {
        self.lent.sequence()
    }

    pub fn commit(self) {
        self.lent.commit();
    }
}
