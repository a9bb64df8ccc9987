//! Secrets at rest: sealed with a key derived from the process's secret key, each bound to the resource that it belongs to.

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::Refusal;

const NONCE_BYTES: usize = 24;

/// The secret key of a process, from which keys for single purposes are derived.
#[derive(Clone)]
pub(crate) struct SecretKey([u8; 32]);

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

impl SecretKey {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// A key for one purpose, which tells nothing of the keys for others.
    pub(crate) fn derive(&self, purpose: &str) -> Result<[u8; 32], Refusal> {
        let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(&self.0)
            .map_err(|_| Refusal::internal("the secret key has a length that HMAC refuses"))?;
        mac.update(purpose.as_bytes());
        Ok(mac.finalize().into_bytes().into())
    }

    fn cipher(&self) -> Result<XChaCha20Poly1305, Refusal> {
        Ok(XChaCha20Poly1305::new(&self.derive("channel secrets")?.into()))
    }

    /// Seals a secret so that it opens only for `owner`.
    pub(crate) fn seal(&self, owner: &str, secret: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|e| Refusal::internal(format!("no random numbers: {e}")))?;
        let payload = Payload { msg: secret, aad: owner.as_bytes() };
        let sealed =
            self.cipher()?.encrypt(&XNonce::from(nonce), payload).map_err(|_| Refusal::internal("a secret can't be sealed"))?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Opens what was sealed for `owner`; `None` when the key is another one now, or the bytes are damaged.
    pub(crate) fn open(&self, owner: &str, sealed: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
        let Some((nonce, sealed)) = sealed.split_first_chunk::<NONCE_BYTES>() else { return Ok(None) };
        let payload = Payload { msg: sealed, aad: owner.as_bytes() };
        Ok(self.cipher()?.decrypt(&XNonce::from(*nonce), payload).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_only_with_its_key_and_for_its_owner() {
        let key = SecretKey::new([1; 32]);
        let sealed = key.seal("con_1", b"xoxb-secret").unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"secret"));
        assert_eq!(key.open("con_1", &sealed).unwrap().as_deref(), Some(b"xoxb-secret".as_slice()));
        assert_eq!(key.open("con_2", &sealed).unwrap(), None);
        assert_eq!(SecretKey::new([2; 32]).open("con_1", &sealed).unwrap(), None);
        assert_eq!(key.open("con_1", &sealed[..10]).unwrap(), None);
        assert_ne!(key.seal("con_1", b"xoxb-secret").unwrap(), sealed);
    }

    #[test]
    fn purposes_have_keys_of_their_own() {
        let key = SecretKey::new([1; 32]);
        assert_ne!(key.derive("cursors").unwrap(), key.derive("channel secrets").unwrap());
        assert_eq!(key.derive("cursors").unwrap(), key.derive("cursors").unwrap());
    }
}
