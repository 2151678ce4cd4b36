import { generate } from "selfsigned";

/** A key and its certificate in PEM form. */
export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

const day = 24 * 60 * 60 * 1000;

/** A certificate for these names, self-signed without an `issuer`. */
export async function makeCertificate(
  names: { readonly dns?: readonly string[]; readonly ip?: readonly string[] },
  { issuer, expired = false, keyType = "ec" }: { issuer?: Certificate; expired?: boolean; keyType?: "ec" | "rsa" } = {},
): Promise<Certificate> {
  const pems = await generate([{ name: "commonName", value: names.dns?.[0] ?? "rollcall test" }], {
    keyType,
    algorithm: "sha256",
    notBeforeDate: new Date(Date.now() - 2 * day),
    notAfterDate: new Date(Date.now() + (expired ? -day : day)),
    extensions: [
      { name: "basicConstraints", cA: false, critical: true },
      {
        name: "subjectAltName",
        altNames: [
          ...(names.dns ?? []).map((value) => ({ type: 2 as const, value })),
          ...(names.ip ?? []).map((ip) => ({ type: 7 as const, ip })),
        ],
      },
    ],
    ...(issuer === undefined ? {} : { ca: issuer }),
  });
  return { key: pems.private, cert: pems.cert };
}

/** The certificate of an authority. */
export async function makeAuthority(): Promise<Certificate> {
  const pems = await generate([{ name: "commonName", value: "rollcall test authority" }], {
    keyType: "ec",
    algorithm: "sha256",
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      { name: "keyUsage", keyCertSign: true, cRLSign: true, critical: true },
    ],
  });
  return { key: pems.private, cert: pems.cert };
}
