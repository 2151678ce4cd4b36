import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { presentable, redactor } from "#redact.ts";

const secret = "p&ß<w'ord>/+ 1\"";

describe("a secret is replaced", () => {
  const bytes = Buffer.from(secret);
  test.each([
    ["as it is", secret],
    ["in JSON", JSON.stringify(secret)],
    ["in JSON within JSON", JSON.stringify(JSON.stringify(secret))],
    ["in JSON of ASCII", JSON.stringify(secret).replace("ß", "\\u00df")],
    ["in a URL", encodeURIComponent(secret)],
    ["in a URL, in small letters", encodeURIComponent(secret).toLowerCase()],
    ["in a form", new URLSearchParams({ p: secret }).toString()],
    ["in HTML", "p&amp;ß&lt;w&#39;ord&gt;/+ 1&quot;"],
    ["in base64", bytes.toString("base64")],
    ["in hexadecimal", bytes.toString("hex")],
  ])("%s", (_, text) => {
    expect(redactor([secret])(`before ${text} after`)).toMatch(
      /^before .{0,3}\*\*\*.{0,3} after$|^before p=\*\*\* after$/,
    );
  });

  test("in base64 wherever it stands in what is encoded", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 9 }), fc.string({ maxLength: 9 }), (before, after) => {
        const found = redactor(["S3cret-of-all"])(Buffer.from(`${before}S3cret-of-all${after}`).toString("base64"));
        expect(Buffer.from(found.replaceAll("***", ""), "base64").toString()).not.toContain("cret-of-al");
      }),
    );
  });
});

test("a secret that is an ordinary word does not hide every message", () => {
  const text = "sync staff: the sync is held; Synced, resync, async";
  expect(redactor(["sync", "Held", "1", "abc"])(text)).toBe(text);
});

test("a short secret is masked where a secret is due, and nowhere else", () => {
  const redact = redactor(["8442", "hunter2", "S3c!", "info"]);
  const plain = '{"level":"info","time":"2026-11-26T08:44:20.8442Z","msg":"on port 8442, hunter2s"}';
  expect(redact(plain)).toBe(plain);
  expect(redact("https://u:8442@host:8442/ ldap://x:S3c!@h")).toBe("https://u:***@host:8442/ ldap://x:***@h");
  expect(redact('password=hunter2&x=hunter2, "token": "8442", API-Key: S3c! Bearer info')).toBe(
    'password=***&x=hunter2, "token": "***", API-Key: *** Bearer ***',
  );
  expect(redact(JSON.stringify(JSON.stringify({ clientSecret: "hunter2" })))).toBe(
    String.raw`"{\"clientSecret\":\"***\"}"`,
  );
  // Where it is encoded, nothing else looks like it.
  expect(redact(Buffer.from("user:hunter2").toString("base64"))).toMatch(/\*\*\*/);
});

test("of what a server says, words are replaced as well, and nothing controls a terminal", () => {
  // Words that no other test of this process has as a secret: those of every loaded configuration are replaced.
  expect(presentable("Qbind Qof sync Qfailed (Qasync) \u001B[31mQred\u001B[0m\0", ["sync"])).toBe(
    "Qbind Qof *** Qfailed (Qasync) [31mQred [0m",
  );
  expect(presentable("c3luYw== 73796e63", ["sync"])).toBe("***== ***");
  expect(presentable("(q.b) q.b", ["q.b"])).toBe("(***) ***");
  // Every character may be in a secret, also those that mean something in a regular expression.
  for (let code = 0x21; code < 0x7f; code++) {
    const odd = `q${String.fromCharCode(code)}`;
    expect(presentable(`Qsay ${odd} Qback`, [odd])).not.toContain(odd);
  }
});
