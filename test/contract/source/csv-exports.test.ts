import { createHash } from "node:crypto";
import { appendFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { SourceRecord } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import csv from "#connectors/csv/index.ts";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-csv-exports-"));
});

afterEach(() => rm(folder, { recursive: true }));

function batches(options: object, signal = new AbortController().signal) {
  const source = csv.open(csv.options.parse(options), { name: "corp", folder });
  return source.read({ signal, warn: () => {} });
}

async function read(options: object): Promise<readonly SourceRecord[]> {
  return (await Array.fromAsync(batches(options))).flat();
}

/** What is wrong: the error's class and message. */
async function failure(options: object): Promise<string> {
  const error: unknown = await read(options).catch((error: unknown) => error);
  if (error instanceof InputError) return `input: ${error.message}`;
  if (error instanceof IncompleteReadError) return `incomplete: ${error.message}`;
  throw new Error(`expected a failure, got ${String(error)}`);
}

const write = (name: string, content: string | Buffer) => writeFile(join(folder, name), content);
const users = { file: "users.csv", id: "id" };
const ada = { id: "1", attributes: { id: "1", name: "Ada" } };
const bob = { id: "2", attributes: { id: "2", name: "Bob" } };

/** What is strict by default, the setting that allows it, and what is then read. */
const leniencies: readonly {
  readonly what: string;
  readonly text: string | Buffer;
  readonly error: string;
  readonly setting: object;
  readonly records: readonly object[];
}[] = [
  {
    what: "semicolons",
    text: "id;name\r\n1;Ada\r\n2;Bob\r\n",
    error: 'input: users.csv:1: the header has no column "id"; this looks like a single column: set delimiter to ";"',
    setting: { delimiter: ";" },
    records: [ada, bob],
  },
  {
    what: "Excel's Unicode text",
    text: Buffer.from("\u{FEFF}id\tname\r\n1\tAda\r\n", "utf16le"),
    error: "input: users.csv:1: starts with the byte order mark of utf-16le; set encoding to utf-16le",
    setting: { delimiter: "\t", encoding: "utf-16" },
    records: [ada],
  },
  {
    what: "a line that names the delimiter",
    text: "\u{FEFF}sep=;\r\nid;name\r\n1;Ada\r\n",
    error: "input: users.csv:1: is a line that says what the delimiter is (sep=…); set sepLine to true",
    setting: { sepLine: true },
    records: [{ ...ada, origin: "users.csv:3" }],
  },
  {
    what: "another case in the header",
    text: " ID ,name\n1,Ada\n",
    error:
      'input: users.csv:1: the header has no column "id"; it is written "ID" there: write it so, or set ignoreCase',
    setting: { ignoreCase: true },
    records: [{ id: "1", attributes: { ID: "1", name: "Ada" } }],
  },
  {
    what: "two columns of one name, of which the first counts",
    text: "id,name,name\n1,Ada,Countess\n",
    error:
      "input: users.csv:1: columns 2 and 3 of the header have the same name; rename one, or set duplicateColumns to first, last or numbered",
    setting: { duplicateColumns: "first" },
    records: [ada],
  },
  {
    what: "two columns of one name, of which the last counts",
    text: "id,name,name\n1,Countess,Ada\n",
    error: "input: users.csv:1: columns 2 and 3",
    setting: { duplicateColumns: "last" },
    records: [ada],
  },
  {
    what: "columns of one name, numbered",
    text: "id,name,name,name_2,name\n1,Ada,b,c,d\n",
    error: "input: users.csv:1: columns 2 and 3",
    setting: { duplicateColumns: "numbered" },
    // The third is called so by itself.
    records: [{ id: "1", attributes: { id: "1", name: "Ada", name_2: "b", name_2_2: "c", name_3: "d" } }],
  },
  {
    what: "rows of nothing but delimiters",
    text: "id,name\n1,Ada\n,\n , \n2,Bob\n,,,\n",
    error: "input: users.csv:3: a row without any value; such rows are skipped with skipBlankRows: true",
    setting: { skipBlankRows: true },
    records: [ada, { ...bob, origin: "users.csv:5" }],
  },
  {
    what: "rows without their last fields",
    text: "id,name,mail\n1,Ada\n2,Bob,\n",
    error: "input: users.csv:2: has 2 fields, the header has 3; missing fields are empty with shortRows: true",
    setting: { shortRows: true },
    records: [ada, bob],
  },
  {
    what: "delimiters at the end of rows",
    text: "id,name\n1,Ada,,\n2,Bob\n",
    error:
      "input: users.csv:2: has 4 fields, the header has 2; empty fields at the end are dropped with trailingDelimiters: true",
    setting: { trailingDelimiters: true },
    records: [ada, bob],
  },
  {
    what: "lines before the header",
    text: 'Export of 1"\r\n"\r\nid,name\r\n1,Ada\r\n2,Bob\r\n',
    error: "input: users.csv:1: the row that starts here has a quote inside a field",
    setting: { skipLines: 2 },
    records: [{ ...ada, origin: "users.csv:4" }, bob],
  },
  {
    what: "rows before the header",
    text: "Export of,1 March\n\n,,\nid,name\n1,Ada\n2,Bob\n",
    error:
      'input: users.csv:1: the header has no column "id"; is the header line missing, or does the column have another name?; ' +
      "line 4 looks like it: set skipLines: 3, or skipUntilHeader: true",
    setting: { skipUntilHeader: true },
    records: [{ ...ada, origin: "users.csv:5" }, bob],
  },
  {
    what: "delimiters at the end of the header",
    text: "id,name,,\n1,Ada,,\n2,Bob\n",
    error: "input: users.csv:3: has 2 fields, the header has 4; missing fields are empty with shortRows: true",
    setting: { trailingDelimiters: true },
    records: [ada, bob],
  },
];

test.each(leniencies)(
  "refuses $what, and names the setting that allows it",
  async ({ text, error, setting, records }) => {
    await write("users.csv", text);
    expect(await failure({ users })).toContain(error);
    expect(await read({ users, ...setting })).toMatchObject(records);
    // Also for one file alone.
    const found = await read({ users: { ...users, ...setting } });
    expect(found).toMatchObject(records);
    expect(found).toHaveLength(records.length);
  },
);

test("lines before the header end in any way, wherever a piece of the text ends", async () => {
  for (const [newline, count] of [
    ["\n", 3],
    ["\r\n", 3],
    ["\r", 3],
  ] as const) {
    // 32 KiB is how much is read at a time.
    for (const length of [32_765, 32_766, 32_767, 32_768]) {
      const preamble = ["x".repeat(length - 2 * newline.length), "", '"'].join(newline);
      await write("users.csv", [preamble, "id,name", "1,Ada", ""].join(newline));
      expect(await read({ users, skipLines: count })).toMatchObject([{ ...ada, origin: "users.csv:5" }]);
    }
  }
  expect(await failure({ users, skipLines: 9 })).toBe("incomplete: users.csv is empty: it has no header line");
});

test("a header that is never found is an error", async () => {
  await write("users.csv", "a,b\nc,d\n");
  const options = { users: { ...users, memberOf: { column: "groups" } }, skipUntilHeader: true };
  expect(await failure(options)).toBe('incomplete: users.csv has no header: no row has the columns "id", "groups"');
  await write("users.csv", "a,b\n".repeat(200));
  expect(await failure(options)).toBe(
    'input: users.csv:101: the header has no column "id"; is the header line missing, or does the column have another name?',
  );
});

test("a header that comes again is an error", async () => {
  await write("users.csv", "id,name\n1,Ada\nid,name\n2,Bob\n");
  expect(await failure({ users })).toBe(
    "input: users.csv:3: is the header again; if several exports were joined, name each as a file of its own: file: [one.csv, two.csv]",
  );
});

test("a second line of the header is no person, in whichever case it is", async () => {
  await write("users.csv", "ID,Display Name\nid,display  name\n1,Ada\n");
  expect(await failure({ users: { ...users, id: "ID" } })).toBe(
    "input: users.csv:2: is the header again; if the header has two lines, set skipLines: 1",
  );
  expect(await read({ users, skipLines: 1 })).toMatchObject([{ id: "1", origin: "users.csv:3" }]);
});

test.each([
  ["the header behind a byte order mark", "id,name\n1,Ada\n\u{FEFF}id,name\n2,Bob\n", 3],
  ["the header, quoted, behind a byte order mark", '"id","name"\n"1","Ada"\n\u{FEFF}"id","name"\n"2","Bob"\n', 3],
  ["the header with other spaces", "id,name\n1,Ada\nid, name\n2,Bob\n", 3],
  ["a row of another file", "id,name\n1,Ada\n\u{FEFF}2,Bob\n", 3],
])("files that were joined end the read: %s", async (_, text, line) => {
  await write("users.csv", text);
  expect(await failure({ users })).toContain(`input: users.csv:${line}: `);
});

test("joined files of memberships end the read", async () => {
  await write("users.csv", "id\n1\n2\n");
  await write("pairs.csv", "group,member\ng,1\n\u{FEFF}group,member\ng,2\n");
  const options = { users, memberships: { file: "pairs.csv", group: "group", member: "member" } };
  expect(await failure(options)).toContain("input: pairs.csv:3: starts with a byte order mark");
});

test("a wrong delimiter is named, not the quotes that it makes wrong further down", async () => {
  await write("users.csv", `id;name\n${"1;Ada\n".repeat(49)}2;"Bob, the ""builder"""\n`);
  expect(await failure({ users })).toBe(
    'input: users.csv:1: the header has no column "id"; this looks like a single column: set delimiter to ";"',
  );
});

test("suggests only a column whose name is near", async () => {
  await write("users.csv", "id,place,since\n1,x,y\n");
  const asking = (column: string) => failure({ users: { ...users, columns: { name: column } } });
  expect(await asking("plaec")).toContain('did you mean "place"?');
  expect(await asking("state")).not.toContain("did you mean");
});

test.each([
  ["display\u{A0}name", 'invisible characters: "display\\u00a0name"'],
  ["display name\u{200B}", 'invisible characters: "display name\\u200b"'],
  ["display  name", 'other spaces: "display  name"'],
])("a header that only looks right is named as what it is: %j", async (written, message) => {
  await write("users.csv", `id,${written}\n1,Ada\n`);
  const options = { users: { ...users, columns: { name: "display name" } } };
  expect(await failure(options)).toBe(
    `input: users.csv:1: the header has no column "display name"; there is one written with ${message}; write it so, in double quotes`,
  );
});

test("drops no value that is past the header, whatever is allowed", async () => {
  await write("users.csv", "id,name\n1,Ada,x\n");
  const setting = { trailingDelimiters: true, shortRows: true, skipBlankRows: true };
  expect(await failure({ users, ...setting })).toContain("users.csv:2: has 3 fields, the header has 2; a field that");
});

test("reads lines that end in different ways, and counts them as an editor does", async () => {
  await write("users.csv", 'id,name\r\n1,Ada\n2,"B\r\no\nb"\r3,Cy\r\n');
  expect((await read({ users })).map((record) => record.origin)).toEqual(["users.csv:2", "users.csv:3", "users.csv:6"]);
});

test("a line sep= that names the quote is refused", async () => {
  await write("users.csv", 'sep="\nid"name\n');
  expect(await failure({ users, sepLine: true })).toBe("input: users.csv:1: the delimiter it names is also the quote");
});

test.each(["sep=;\r\n", '"sep=;"\r\n'])(
  "a line that names the delimiter is accepted where it may be: %j",
  async (line) => {
    await write("users.csv", `${line}id;name\r\n1;Ada\r\n`);
    expect(await read({ users, sepLine: true })).toMatchObject([ada]);
    expect(await failure({ users })).toContain("set sepLine to true");
  },
);

test("a first line that only looks like sep= is the header", async () => {
  await write("users.csv", "sep=x,id\n7,1\n");
  expect(await read({ users })).toMatchObject([{ id: "1", attributes: { "sep=x": "7" } }]);
});

describe("several files", () => {
  test("are read in the order of their names, each with its own header", async () => {
    await write("users-b.csv", "id,name\n2,Bob\n");
    await write("users-a.csv.gz", gzipSync("id,name\n1,Ada\n"));
    await write("groups.csv", "id,name\n9,Nine\n");
    expect(await read({ users: { file: "users-*", id: "id" } })).toMatchObject([
      { ...ada, origin: "users-a.csv.gz:2" },
      { ...bob, origin: "users-b.csv:2" },
    ]);
    expect(await read({ users: { file: ["users-b.csv", "users-[a]*"], id: "id" } })).toMatchObject([bob, ada]);
  });

  test("may be one that is called like a pattern", async () => {
    await write("users[1].csv", "id,name\n1,Ada\n");
    expect(await read({ users: { file: "users[1].csv", id: "id" } })).toMatchObject([ada]);
  });

  test("of which there are none is an error", async () => {
    expect(await failure({ users: { file: "users-*.csv", id: "id" } })).toContain(
      "incomplete: no file matches users-*.csv (looked in",
    );
  });

  test("must each be complete", async () => {
    await write("users-a.csv", "id,name\n1,Ada\n");
    await write("users-b.csv", "id,name\n");
    expect(await failure({ users: { file: "users-*.csv", id: "id" } })).toContain("users-b.csv has too few rows: 0");
  });

  test("have one header, unless columns are found by name", async () => {
    await write("users-a.csv", "id,name\n1,Ada\n");
    await write("users-b.csv", "name,extra,id\nBob,x,2\n");
    const file = "users-*.csv";
    expect(await failure({ users: { file, id: "id" } })).toBe(
      "input: users-b.csv:1: the header differs from that of users-a.csv; set headers to byName if the columns may differ",
    );
    expect(await read({ users: { file, id: "id" }, headers: "byName" })).toMatchObject([ada, { id: "2" }]);
    await write("users-c.csv", "name\nCy\n");
    expect(await failure({ users: { file, id: "id" }, headers: "byName" })).toContain(
      'users-c.csv:1: the header has no column "id"',
    );
  });

  test("stay the same ones during the read", async () => {
    await write("users-a.csv", "id,name\n1,Ada\n");
    const reading = (async () => {
      for await (const batch of batches({ users: { file: "users-*.csv", id: "id" } })) {
        expect(batch).toHaveLength(1);
        await write("users-b.csv", "id,name\n2,Bob\n");
      }
    })();
    await expect(reading).rejects.toThrow("users-b.csv appeared while the others were being read");
  });
});

describe("a file that is being written", () => {
  test("is waited for until it rests", async () => {
    await write("users.csv", "id,name\n");
    const reading = read({ users, settled: "2s" });
    // It goes on being written to, for longer than the wait altogether, and never as late as that.
    for (let id = 0; id < 8; id++) {
      await new Promise((resolve) => setTimeout(resolve, 300));
      await appendFile(join(folder, "users.csv"), `${id},Ada\n`);
    }
    expect(await reading).toHaveLength(8);
  });

  test("is no longer waited for when the read is given up", async () => {
    await write("users.csv", "id,name\n1,Ada\n");
    const reason = new Error("enough");
    const reading = Array.fromAsync(batches({ users, settled: "1h" }, AbortSignal.timeout(50)));
    await expect(reading).rejects.toThrow("timeout");
    await expect(Array.fromAsync(batches({ users, settled: "1h" }, AbortSignal.abort(reason)))).rejects.toBe(reason);
  });

  test("lacks its trailer", async () => {
    await write("users.csv", "id,name\n1,Ada\n");
    const trailer = "^END,0*(\\d+)$";
    expect(await failure({ users, trailer })).toContain(
      "incomplete: users.csv has no last row that the setting trailer",
    );
    await write("users.csv", "id,name\n1,Ada\nEND,002\n");
    expect(await failure({ users, trailer })).toBe("incomplete: users.csv:3: counts 2 rows, and there are 1 before it");
    await write("users.csv", "id,name\n1,Ada\n2,Bob\nEND,002\n\n");
    expect(await read({ users, trailer })).toMatchObject([ada, bob]);
    await write("users.csv", "id,name\n1,Ada\nEND,1\n2,Bob\n");
    expect(await failure({ users, trailer })).toContain(
      "input: users.csv:3: the setting trailer matches this row, but",
    );
    await write("users.csv", "id,name\n1,Ada\n# 1 rows\n");
    expect(await read({ users, trailer: "^# (\\d+) rows$" })).toMatchObject([ada]);
    expect(await failure({ users, trailer: "^# (.*)$" })).toContain("users.csv:3: what the setting trailer captures");
  });

  test.each(["md5", "sha256"])("does not have its checksum (%s)", async (checksum) => {
    const text = "id,name\n1,Ada\n2,Bob\n";
    const digest = createHash(checksum).update(text).digest("hex");
    await write("users.csv", text);
    expect(await failure({ users, checksum })).toContain(`incomplete: users.csv.${checksum} cannot be read`);
    await write(`users.csv.${checksum}`, "soon\n");
    expect(await failure({ users, checksum })).toContain(`input: users.csv.${checksum}: holds no ${checksum} checksum`);
    for (const line of [digest, `${digest.toUpperCase()}\r\n`, `${digest} *some/where/users.csv\n`]) {
      await write(`users.csv.${checksum}`, line);
      expect(await read({ users, checksum })).toMatchObject([ada, bob]);
    }
    // The file of checksums is not itself one of the files.
    expect(await read({ users: { ...users, file: "users*" }, checksum })).toHaveLength(2);
    await write("users.csv", text.slice(0, -6));
    expect(await failure({ users, checksum })).toContain("incomplete: users.csv does not have the checksum that");
  });
});
