//! A quinn program over real UDP: `real server PORT` receives, `real client ADDRESS CONTROL SECONDS` sends and says what it measured, as JSON.
//!
//! Windows are as the adapter of the simulator is told to have them, and so is the size of a datagram.

use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig, VarInt};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Done<T> = Result<T, Box<dyn Error>>;
/// Bytes: more than any bandwidth-delay product that is tried.
const WINDOW: u32 = 64 << 20;
/// UDP payload of a full packet, as the adapter has it.
const MTU: u16 = 1452;

fn transport(control: &str) -> Done<Arc<TransportConfig>> {
    let factory: Arc<dyn ControllerFactory + Send + Sync> = match control {
        "cubic" => Arc::new(CubicConfig::default()),
        "newreno" => Arc::new(NewRenoConfig::default()),
        "bbr" => Arc::new(BbrConfig::default()),
        other => return Err(format!("control {other}; allowed: cubic, newreno, bbr").into()),
    };
    let mut config = TransportConfig::default();
    config.congestion_controller_factory(factory).initial_mtu(MTU).min_mtu(MTU).mtu_discovery_config(None);
    config.stream_receive_window(VarInt::from_u32(WINDOW)).receive_window(VarInt::from_u32(WINDOW)).send_window(u64::from(WINDOW));
    config.max_idle_timeout(None);
    Ok(Arc::new(config))
}

/// Datagrams that found the buffer of a socket of this namespace full, or an error: nothing of the laboratory counts them.
fn lost_by_sockets() -> Done<u64> {
    let snmp = std::fs::read_to_string("/proc/self/net/snmp")?;
    let mut rows = snmp.lines().filter_map(|line| line.strip_prefix("Udp: ")).map(str::split_whitespace);
    let (Some(names), Some(values)) = (rows.next(), rows.next()) else { return Err("no counts of UDP in /proc/self/net/snmp".into()) };
    // InErrors has what RcvbufErrors has, and more
    let counted = names.zip(values).filter(|(name, _)| matches!(*name, "InErrors" | "SndbufErrors"));
    counted.map(|(_, value)| Ok(value.parse::<u64>()?)).sum()
}

/// Receives streams and answers each with what it has received and its sockets have lost so far, once a client asks by ending it.
async fn serve(port: u16) -> Done<()> {
    let cert = rcgen::generate_simple_self_signed(vec!["far".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(cert.key_pair.serialize_der());
    let tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(cert.cert)], key.into())?;
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport("cubic")?);
    let endpoint = Endpoint::server(config, SocketAddr::from(([0, 0, 0, 0], port)))?;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let connection = incoming.await.map_err(|error| error.to_string())?;
            let mut stream = connection.accept_uni().await.map_err(|error| error.to_string())?;
            let got = Arc::new(AtomicU64::new(0));
            let told = Arc::clone(&got);
            let asked = connection.clone();
            tokio::spawn(async move {
                while let Ok((mut answer, _)) = asked.accept_bi().await {
                    let lost = lost_by_sockets().map_err(|error| error.to_string())?;
                    let said = [told.load(Ordering::Relaxed), lost].map(u64::to_be_bytes).concat();
                    let _ = answer.write_all(&said).await;
                    let _ = answer.finish();
                }
                Ok::<(), String>(())
            });
            while let Ok(Some(chunk)) = stream.read_chunk(usize::MAX, true).await {
                got.fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed);
            }
            Ok::<(), String>(())
        });
    }
    Ok(())
}

/// Takes every certificate: both ends are ours.
#[derive(Debug)]
struct Anybody;

impl rustls::client::danger::ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

async fn send(to: SocketAddr, control: &str, seconds: f64) -> Done<()> {
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport(control)?);
    let mut endpoint = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0)))?;
    endpoint.set_default_client_config(config);
    let began = Instant::now();
    let connection = endpoint.connect(to, "far")?.await?;
    let mut stream = connection.open_uni().await?;
    let writer = tokio::spawn(async move {
        let piece = vec![0; 1 << 16];
        while stream.write_all(&piece).await.is_ok() {}
    });
    // sampled as the simulator samples: every 200 ms from the first sample on
    let (mut sum, mut count) = (0.0, 0_u32);
    let end = began + Duration::from_secs_f64(seconds);
    let mut next = began + Duration::from_millis(200);
    while next <= end {
        tokio::time::sleep_until(next.into()).await;
        sum += connection.rtt().as_secs_f64() * 1e3;
        count += 1;
        next += Duration::from_millis(200);
    }
    // what the server has at the end; the question itself takes a round trip
    let (mut ask, mut answer) = connection.open_bi().await?;
    ask.finish()?;
    let asked = Instant::now();
    let said = answer.read_to_end(16).await?;
    let waited = asked.elapsed().as_secs_f64();
    let took = began.elapsed().as_secs_f64();
    let said = u128::from_be_bytes(said.try_into().map_err(|_| "no answer of 16 bytes")?);
    let (got, lost_there) = ((said >> 64) as u64, said as u64);
    let stats = connection.stats().path;
    writer.abort();
    println!(
        "{{\"bytes\": {got}, \"seconds\": {took}, \"waited\": {waited}, \"rtt_ms\": {}, \"lost\": {}, \"sent\": {}, \"lost_by_sockets\": {}}}",
        sum / f64::from(count.max(1)),
        stats.lost_packets,
        stats.sent_packets,
        lost_there + lost_by_sockets()?
    );
    connection.close(0_u32.into(), b"done");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", port] => serve(port.parse()?).await,
        ["client", to, control, seconds] => send(to.parse()?, control, seconds.parse()?).await,
        _ => Err("real server PORT | real client ADDRESS:PORT CONTROL SECONDS".into()),
    }
}
