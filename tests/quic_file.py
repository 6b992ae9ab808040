"""A file over QUIC, by aioquic: `quic_file.py serve FILE PORT`, and `quic_file.py fetch HOST PORT FILE`.

The server writes qlog into the folder QLOGDIR, if the environment has it.
"""

import asyncio
import datetime
import ipaddress
import os
import ssl
import sys
import tempfile
from pathlib import Path

from aioquic.asyncio.client import connect
from aioquic.asyncio.server import serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.logger import QuicFileLogger
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PROTOCOL = ["file"]


def _certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "far")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("far"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(hours=1))
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    pem = folder / "certificate.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret = folder / "key.pem"
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return pem, secret


async def _serve(file: Path, port: int) -> None:
    content = file.read_bytes()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.write(content)
        writer.write_eof()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.get_running_loop().create_task(answer(reader, writer)))

    tasks: set[asyncio.Task[None]] = set()
    logger = QuicFileLogger(os.environ["QLOGDIR"]) if "QLOGDIR" in os.environ else None
    configuration = QuicConfiguration(is_client=False, alpn_protocols=PROTOCOL, quic_logger=logger)
    with tempfile.TemporaryDirectory() as folder:
        configuration.load_cert_chain(*_certificate(Path(folder)))
        await serve("0.0.0.0", port, configuration=configuration, stream_handler=begin)
        await asyncio.Event().wait()


async def _fetch(host: str, port: int, file: Path) -> None:
    configuration = QuicConfiguration(is_client=True, alpn_protocols=PROTOCOL, verify_mode=ssl.CERT_NONE)
    async with connect(host, port, configuration=configuration) as client:
        reader, writer = await client.create_stream()
        writer.write(b"please")
        writer.write_eof()
        file.write_bytes(await reader.read())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", name, number]:
            asyncio.run(_serve(Path(name), int(number)))
        case ["fetch", address, number, name]:
            asyncio.run(_fetch(address, int(number), Path(name)))
