import { readdir, readFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { encode, messagesOf, operation, result, resultCode } from "../../support/ldap/message.ts";
import { companyOfEachTest } from "../../support/rollcall/company.ts";
import { listen, stop, track } from "../../support/scripted-server.ts";

const company = companyOfEachTest();

/** An LDAP server that refuses every bind, and says the password back in several ways. */
async function startTalkative(password: string): Promise<number> {
  const server = createServer((socket) => {
    const converse = async (): Promise<void> => {
      for await (const { id } of messagesOf(socket)) {
        const said = [password, Buffer.from(`x:${password}`).toString("base64"), "\u001B[31mred\u001B[0m"].join(" | ");
        socket.write(encode(id, operation.bindResponse, result(resultCode.invalidCredentials, `no ${said}`)));
      }
    };
    converse().catch(() => socket.destroy());
  });
  const open = track(server);
  onTestFinished(() => stop(server, open));
  return listen(server);
}

/** Everything below a folder, as one text. */
async function allIn(folder: string): Promise<string> {
  const files = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((each) => each.isFile());
  const texts = await Promise.all(files.map(({ parentPath, name }) => readFile(join(parentPath, name), "latin1")));
  return texts.join("\n");
}

test.each(["Tr0ub4dor-and-3", "sync"])(
  "a server that says the password %s back has it shown nowhere",
  async (password) => {
    const port = await startTalkative(password);
    await company.configure((yaml) =>
      yaml.replace(
        /connector: csv\n.*\n.*\n/,
        `connector: ldap
    url: ldap://127.0.0.1:${port}
    bind: { dn: "cn=reader", password: ${password} }
    users: { base: "ou=people" }
`,
      ),
    );
    const applied = await company.command("apply", "--yes");
    expect(applied.code).toBe(1);
    const told = [applied, await company.command("plan", "--json"), await company.command("check")];
    told.push(await company.command("runs", "--json"), await company.command("show", "latest", "--json"));
    const text = told.map(({ stdout, stderr }) => stdout + stderr).join("\n");
    // The refusal itself is there.
    expect(text).toContain("invalidCredentials (the server says: no ***");
    expect(text).not.toContain("\u001B[31m");
    const encoded = Buffer.from(`x:${password}`).toString("base64");
    const stored = await allIn(join(company.folder, "data", "daemon"));
    for (const each of [text, stored]) {
      if (password !== "sync") expect(each).not.toContain(password);
      expect(each).not.toContain(`no ${password}`);
      if (password !== "sync") expect(each).not.toContain(encoded);
    }
    // Words of Rollcall's own stay: the secret does not star every message.
    expect(text).not.toMatch(/\*\*\* staff|"\*\*\*":/);
  },
);
