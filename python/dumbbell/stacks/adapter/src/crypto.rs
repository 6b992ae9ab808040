//! Cryptography that protects nothing and has the sizes of AES-128-GCM: each packet has a tag of 16 bytes. The handshake takes the
//! flights of TLS 1.3 and carries the transport parameters alone, no certificates.
//!
//! Licence: MIT OR Apache-2.0.

use std::any::Any;
#[cfg(feature = "quinn")]
use std::sync::Arc;

use bytes::BytesMut;
use proto::crypto::{
    self, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey, KeyPair, Keys, PacketKey, Session,
    UnsupportedVersion,
};
use proto::transport_parameters::TransportParameters;
use proto::{ConnectError, ConnectionId, Side, TransportError};
use virtual_random::mixed;

const TAG: usize = 16; // bytes: AEAD_AES_128_GCM, RFC 5116 section 5.1

#[cfg(feature = "ids_by_reference")]
type Id<'a> = &'a ConnectionId;
#[cfg(not(feature = "ids_by_reference"))]
type Id<'a> = ConnectionId;

struct NoKey;

impl PacketKey for NoKey {
    fn encrypt(&self, #[cfg(feature = "noq")] _: proto::PathId, _packet: u64, buf: &mut [u8], _header_len: usize) {
        let data = buf.len() - TAG;
        buf[data..].fill(0);
    }

    fn decrypt(
        &self,
        #[cfg(feature = "noq")] _: proto::PathId,
        _packet: u64,
        _header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        let data = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
        payload.truncate(data);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

impl HeaderKey for NoKey {
    fn decrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        16 // RFC 9001 section 5.4.2
    }
}

fn packet_keys() -> KeyPair<Box<dyn PacketKey>> {
    KeyPair { local: Box::new(NoKey), remote: Box::new(NoKey) }
}

fn keys() -> Keys {
    Keys { header: KeyPair { local: Box::new(NoKey), remote: Box::new(NoKey) }, packet: packet_keys() }
}

const FINISHED: u8 = b'F';

/// What the handshake has still to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Parameters,
    HandshakeKeys,
    Finished,
    Nothing,
}

/// A handshake: each side sends its transport parameters after their length, then `FINISHED`.
struct Handshake {
    side: Side,
    step: Step,
    own: Vec<u8>,
    peers: Option<TransportParameters>,
    unread: Vec<u8>,
    peer_finished: bool,
}

impl Handshake {
    fn new(side: Side, params: &TransportParameters) -> Self {
        let mut written = Vec::new();
        params.write(&mut written);
        let mut own = (written.len() as u16).to_be_bytes().to_vec();
        own.extend(written);
        Self { side, step: Step::Parameters, own, peers: None, unread: Vec::new(), peer_finished: false }
    }

    fn peers_parameters(&self) -> Option<&[u8]> {
        let length = usize::from(u16::from_be_bytes(self.unread.first_chunk().copied()?));
        self.unread.get(2..2 + length)
    }
}

impl Session for Handshake {
    fn initial_keys(&self, _: Id<'_>, _: Side) -> Keys {
        keys()
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(()))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        Some(false)
    }

    fn is_handshaking(&self) -> bool {
        !self.peer_finished
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.unread.extend_from_slice(buf);
        let mut news = false;
        if self.peers.is_none() {
            let Some(mut written) = self.peers_parameters() else {
                return Ok(false);
            };
            let end = 2 + written.len();
            self.peers = Some(TransportParameters::read(self.side, &mut written)?);
            self.unread.drain(..end);
            news = true;
        }
        self.peer_finished |= self.unread.contains(&FINISHED);
        self.unread.clear();
        Ok(news)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.peers)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        match (self.side, self.step) {
            (Side::Client, Step::Parameters) => {
                buf.extend_from_slice(&self.own);
                self.step = Step::HandshakeKeys;
                None
            }
            (Side::Client, Step::HandshakeKeys) if self.peers.is_some() => {
                self.step = Step::Finished;
                Some(keys())
            }
            (Side::Server, Step::Parameters) if self.peers.is_some() => {
                buf.extend_from_slice(&self.own);
                self.step = Step::Finished;
                Some(keys())
            }
            // the server sends its Finished, and has 1-RTT keys, before the client's has come
            (side, Step::Finished) if self.peer_finished || side == Side::Server => {
                buf.push(FINISHED);
                self.step = Step::Nothing;
                Some(keys())
            }
            _ => None,
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(packet_keys())
    }

    fn is_valid_retry(&self, _: Id<'_>, _: &[u8], _: &[u8]) -> bool {
        true
    }

    fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
        Ok(())
    }
}

/// Makes the handshakes of clients and servers.
pub struct Handshakes;

impl crypto::ClientConfig for Handshakes {
    #[cfg(feature = "quinn")]
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        _server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(Handshake::new(Side::Client, params)))
    }

    #[cfg(feature = "noq")]
    fn start_session(
        &self,
        _version: u32,
        _server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(Handshake::new(Side::Client, params)))
    }
}

impl crypto::ServerConfig for Handshakes {
    fn initial_keys(&self, _version: u32, _: Id<'_>) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }

    fn retry_tag(&self, _version: u32, _: Id<'_>, _packet: &[u8]) -> [u8; 16] {
        [0; 16]
    }

    #[cfg(feature = "quinn")]
    fn start_session(self: Arc<Self>, _version: u32, params: &TransportParameters) -> Box<dyn Session> {
        Box::new(Handshake::new(Side::Server, params))
    }

    #[cfg(feature = "noq")]
    fn start_session(&self, _version: u32, params: &TransportParameters) -> Box<dyn Session> {
        Box::new(Handshake::new(Side::Server, params))
    }
}

/// Signs by mixing: reset tokens are made of connection IDs, and have to differ as these do.
pub struct Signer;

impl HmacKey for Signer {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        let mut state = data.iter().fold(data.len() as u64, |state, &byte| mixed(state ^ u64::from(byte)));
        for chunk in signature_out.chunks_mut(8) {
            state = mixed(state.wrapping_add(1));
            chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
        }
    }

    fn signature_len(&self) -> usize {
        32 // HMAC-SHA256
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut own = [0; 32];
        self.sign(data, &mut own);
        if own == signature {
            Ok(())
        } else {
            Err(CryptoError)
        }
    }
}

/// Seals address validation tokens with nothing but a tag.
pub struct Sealer;

fn seal(data: &mut Vec<u8>) {
    data.extend_from_slice(&[0; TAG]);
}

fn opened(data: usize) -> Result<usize, CryptoError> {
    data.checked_sub(TAG).ok_or(CryptoError)
}

#[cfg(feature = "quinn")]
impl HandshakeTokenKey for Sealer {
    fn aead_from_hkdf(&self, _random_bytes: &[u8]) -> Box<dyn crypto::AeadKey> {
        Box::new(Self)
    }
}

#[cfg(feature = "quinn")]
impl crypto::AeadKey for Sealer {
    fn seal(&self, data: &mut Vec<u8>, _additional_data: &[u8]) -> Result<(), CryptoError> {
        seal(data);
        Ok(())
    }

    fn open<'a>(&self, data: &'a mut [u8], _additional_data: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        let end = opened(data.len())?;
        Ok(&mut data[..end])
    }
}

#[cfg(feature = "noq")]
impl HandshakeTokenKey for Sealer {
    fn seal(&self, _token_nonce: u128, data: &mut Vec<u8>) -> Result<(), CryptoError> {
        seal(data);
        Ok(())
    }

    fn open<'a>(&self, _token_nonce: u128, data: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
        let end = opened(data.len())?;
        Ok(&data[..end])
    }
}
