import { pipeline } from "node:stream";
import type { Readable } from "node:stream";
import { constants, createGzip, gzipSync } from "node:zlib";

/** The time of the service's processor is worth more than the last percent of a byte. */
const options = { level: constants.Z_BEST_SPEED };

/** Does the client take gzip, whatever it would like better (B.10)? `*` stands for what is not named (RFC 9110, 12.5.3). */
export function acceptsGzip(header: string | undefined): boolean {
  const weights = new Map<string, number>();
  for (const part of (header ?? "").toLowerCase().split(",")) {
    const [coding = "", ...parameters] = part.split(";").map((piece) => piece.trim());
    const weight = parameters.find((parameter) => /^q\s*=/.test(parameter));
    weights.set(coding, weight === undefined ? 1 : Number(weight.slice(weight.indexOf("=") + 1)));
  }
  const weight = weights.get("gzip") ?? weights.get("x-gzip") ?? weights.get("*") ?? 0;
  return weight > 0;
}

/** Compresses a small body. */
export function gzipBytes(body: Uint8Array): Buffer {
  return gzipSync(body, options);
}

/** Compresses a stream as it flows. Either end's breaking off destroys the other. */
export function gzipStream(body: Readable, onError: (error: Error) => void): Readable {
  return pipeline(body, createGzip(options), (error) => {
    if (error) onError(error);
  });
}
