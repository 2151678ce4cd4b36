import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { InputError } from "#errors.ts";
import { readAuthorities } from "#files/certificates.ts";
import { makeCertificate } from "../../support/certificates.ts";

let folder: string;
let made: { readonly cert: string; readonly key: string };

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-"));
  made = await makeCertificate({ dns: ["localhost"] });
});
afterAll(() => rm(folder, { recursive: true }));

async function read(content: string): Promise<string> {
  const file = join(folder, "ca.pem");
  await writeFile(file, content);
  return readAuthorities(file, "ca: ca.pem");
}

test("authorities are read as they are, with what stands around them", async () => {
  for (const content of [made.cert, `# Contoso Root CA\n${made.cert}`, `${made.key}${made.cert}`])
    expect(await read(content)).toBe(content);
});

test("a file without a certificate is said to be so, instead of blaming the server's", async () => {
  const broken = made.cert.replace(/\n[A-Za-z\d+/]{20}/, "\n");
  for (const content of ["", "not a certificate\n", made.key, broken])
    await expect(read(content)).rejects.toThrow("ca: ca.pem holds no certificate in PEM form");
  expect(() => readAuthorities(join(folder, "none.pem"), "ca: none.pem")).toThrow(InputError);
  expect(() => readAuthorities(folder, "ca: folder")).toThrow("ca: folder cannot be read");
});
