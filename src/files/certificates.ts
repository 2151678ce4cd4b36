import { X509Certificate } from "node:crypto";
import { InputError } from "#errors.ts";
import { readSmallFile, unreadable } from "./disk.ts";

/** The longest file of certificates or keys that is read, in bytes. */
export const longestCertificates = 1024 ** 2;

/**
 * The authorities to trust, in a file that a person named (PEM).
 * @param what the option, and the file as it was given: `ca: company.pem`
 * @throws {InputError} it cannot be read, or has no certificate: TLS would trust nobody then, and blame the server
 */
export function readAuthorities(path: string, what: string): string {
  const pem = contentOf(path, what);
  if (hasCertificate(pem)) return pem;
  throw new InputError(`${what} holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)`);
}

function hasCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0;
  } catch {
    return false;
  }
}

function contentOf(path: string, what: string): string {
  try {
    return readSmallFile(path, longestCertificates).toString();
  } catch (cause) {
    throw unreadable(what, path, cause);
  }
}
