import { appendFile, readFile, rename, rm, truncate, utimes, writeFile } from "node:fs/promises";
import { type CsvProvision, csvMedium, memberOfColumns, membersColumn, pairs } from "./csv-medium.ts";
import { type Fault, sourceSuite } from "./suite.ts";

const upTo = (text: string, place: string): string => text.slice(0, text.indexOf(place));

const before: readonly Fault<CsvProvision>[] = [
  {
    name: "the users are missing",
    inject: ({ path }) => rm(path("users")),
    message: /^users\.csv\S* does not exist/,
  },
  {
    name: "the groups are missing",
    inject: ({ path }) => rm(path("groups")),
    message: /^groups\.csv\S* does not exist/,
  },
  {
    name: "the users are empty",
    inject: ({ edit }) => edit("users", () => ""),
    message: /^users\.csv\S* is empty/,
  },
  {
    name: "the groups are a header alone",
    inject: ({ edit }) => edit("groups", (text) => upTo(text, "\n") + "\n"),
    message: /^groups\.csv\S* has too few rows: 0/,
  },
  {
    name: "the users end after a row",
    inject: ({ edit }) => edit("users", (text) => text.slice(0, text.lastIndexOf("\n", text.length - 2) + 1)),
    message: /^users\.csv\S* has too few rows: 8 after the header, expected at least 9/,
  },
  {
    name: "the users end within a row",
    inject: ({ edit }) => edit("users", (text) => upTo(text, "in-no-group")),
    message: /^users\.csv\S*(:9: has \d fields?, the header has \d| has too few rows: 6)/,
  },
  {
    name: "the users end within quotes",
    inject: ({ edit }) => edit("users", (text) => upTo(text, "Second line")),
    message: /^users\.csv\S*:6: .* never closed/,
  },
  {
    name: "the header is missing",
    inject: ({ edit }) => edit("users", (text) => text.slice(text.indexOf("\n") + 1)),
    message: /^users\.csv\S*:1: the header has no column/,
  },
  {
    name: "two columns have one name",
    inject: ({ edit }) => edit("groups", (text) => text.replace(/^([^,;]+)([,;])[^,;]+/, "$1$2$1")),
    message: /^groups\.csv\S*:1: columns 1 and 2 of the header have the same name/,
  },
  {
    name: "a row after quoted newlines has a field too many",
    inject: ({ edit }) => edit("users", (text) => text.replace(/^(.*李雷.*hunter2-is-secret)/m, "$1,;")),
    message: /^users\.csv\S*:8: has \d fields?, the header has \d/,
  },
];

const during: readonly Fault<CsvProvision>[] = [
  {
    name: "the users grow",
    inject: ({ path }) => appendFile(path("users"), "x"),
    message: /^users\.csv\S* changed while it was being read/,
    advice: "retry",
  },
  {
    name: "the users are cut off",
    inject: ({ path }) => truncate(path("users"), 80),
    message: /^users\.csv\S* changed while it was being read/,
    advice: "retry",
  },
  {
    name: "the users are written again with the same text",
    inject: ({ path }) => utimes(path("users"), 1, 1),
    message: /^users\.csv\S* changed while it was being read/,
    advice: "retry",
  },
  {
    name: "the users are replaced",
    inject: async ({ path }) => {
      await writeFile(`${path("users")}.new`, await readFile(path("users")));
      await rename(`${path("users")}.new`, path("users"));
    },
    message: /^users\.csv\S* changed while it was being read/,
    advice: "retry",
  },
  {
    name: "the users are removed",
    inject: ({ path }) => rm(path("users")),
    message: /^users\.csv\S* does not exist/,
  },
  {
    name: "the groups grow while the users are read",
    inject: ({ path }) => appendFile(path("groups"), "x"),
    message: /^groups\.csv\S* changed while it was being read/,
    advice: "retry",
  },
];

const inPairs: readonly Fault<CsvProvision>[] = [
  {
    name: "the compressed users are cut off",
    inject: async ({ path }) => truncate(path("users"), (await readFile(path("users"))).length - 9),
    message: /^users\.csv\.gz:\d+: the compressed data ends here/,
  },
  {
    name: "something follows the compressed users",
    inject: ({ path }) => appendFile(path("users"), "rubbish"),
    message: /^users\.csv\.gz:\d+: the data after this point is not gzip/,
  },
  {
    name: "the users are not compressed",
    inject: ({ path }) => writeFile(path("users"), "Nr.;Name\n"),
    message: /^users\.csv\.gz:1: the data after this point is not gzip/,
  },
  {
    name: "the memberships are missing",
    inject: ({ path }) => rm(path("memberships")),
    message: /^memberships\.csv\.gz does not exist/,
  },
  {
    name: "a pair names no group",
    inject: ({ edit }) => edit("memberships", (text) => `${text}1;Person;\n`),
    message: /^memberships\.csv\.gz:\d+: column "Gruppe" is empty/,
  },
  {
    name: "a pair names something else than a user or a group",
    inject: ({ edit }) => edit("memberships", (text) => `${text}1;Roboter;1\n`),
    message: /^memberships\.csv\.gz:\d+: column "Art": expected "Person" or "Gruppe"/,
  },
];

const faults = { before, during };

const large = { users: 20_000, heap: 24 };

sourceSuite(csvMedium(memberOfColumns, faults, large));
sourceSuite(csvMedium(membersColumn, faults, large));
sourceSuite(csvMedium(pairs, { before: [...before, ...inPairs], during }, large));
