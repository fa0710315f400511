"""Digests and checksums: one long text, many short ones."""
import binascii
import hashlib
import zlib


def work():
    chain = b"seed"
    for _ in range(16000):
        chain = hashlib.sha256(chain).digest()
    block = bytes(range(256)) * 6000
    out = [hashlib.new(name, block).hexdigest()[:8] for name in ("sha1", "sha256", "sha512", "md5", "blake2b", "sha3_256")]
    return chain.hex()[:16], out, zlib.crc32(block), binascii.crc_hqx(block, 0)
