import { spawn } from "node:child_process";
import { once } from "node:events";
import { parseArgs } from "node:util";
import { ldifEntry } from "../support/ldap/ldif.ts";
import { base, type OpenLdap, reader, startOpenLdap } from "../support/ldap/openldap.ts";
import type { LdapReadRequest, LdapReadTiming } from "./ldap-read.ts";
import { type Peer, peerNames, peersOf } from "./ldap-peers.ts";
import { cpuTimes, machine, median, runApart, table } from "./measure.ts";
import type { Figure } from "./results.ts";

const people = `ou=people,${base}`;
const groups = `ou=groups,${base}`;
const pageSize = 1_000;

interface Size {
  readonly users: number;
  readonly groups: number;
  readonly memberships: number;
}

/**
 * `npm run bench -- ldap [--users 100000] [--groups 2000] [--memberships 200000] [--rounds 5] [--memory 256]
 * [--peers ldapts,ldap3,python-ldap] [--bitwarden CHECKOUT]`: reading a directory from OpenLDAP, and reading it to
 * finished principals, beside `ldapsearch`, which reads the same entries and attributes in pages of the same size and
 * throws them away. Once beside libraries that do no more either, and beside Bitwarden's Directory Connector, which makes
 * users and groups. Every measurement is a process of its own; they take turns on one server, so that noise meets all.
 * Linux only.
 */
export async function ldap(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      users: { type: "string", default: "100000" },
      groups: { type: "string", default: "2000" },
      memberships: { type: "string", default: "200000" },
      rounds: { type: "string", default: "5" },
      memory: { type: "string", default: "256" },
      peers: { type: "string", default: peerNames.join(",") },
      bitwarden: { type: "string" },
    },
  });
  const size = { users: Number(values.users), groups: Number(values.groups), memberships: Number(values.memberships) };
  await using server = await startOpenLdap({ ldif: directory(size) });
  const alone: Timing[] = [];
  const read: LdapReadTiming[] = [];
  const assembled: LdapReadTiming[] = [];
  const memory = Number(values.memory) * 1024 ** 2;
  // The first reads warm the server's memory.
  await ldapsearch(server);
  for (let round = 1; round <= Number(values.rounds); round++) {
    alone.push(await ldapsearch(server));
    read.push(expected(size, await connector(server, "read", memory)));
    assembled.push(expected(size, await connector(server, "assemble", memory)));
    const times = [alone.at(-1)?.milliseconds, read.at(-1)?.milliseconds, assembled.at(-1)?.milliseconds];
    console.error(`round ${round}: ldapsearch, read, to principals: ${times.map((each) => seconds(each)).join(", ")}`);
  }
  const peers: (Timing & Omit<Peer, "read">)[] = [];
  for (const { name, does, read } of await peersOf(server, values.peers.split(","), pageSize, values.bitwarden)) {
    const timing = await timed(async () => {
      const count = await read();
      if (count !== size.users + size.groups) throw new Error(`${name} has read ${count} entries`);
    });
    peers.push({ name, does, ...timing });
    console.error(`${name}: ${seconds(timing.milliseconds)}`);
  }
  const limit = median(alone.map(({ milliseconds }) => milliseconds));
  const { users, groups: groupCount, memberships } = size;
  console.log(`${machine()}; OpenLDAP on the same machine, pages of ${pageSize}: ${users.toLocaleString("en")} users,`);
  console.log(`${groupCount.toLocaleString("en")} groups, ${memberships.toLocaleString("en")} memberships.\n`);
  console.log(
    table(
      ["what", "", "time", "ratio", "processor", "peak memory", "event loop max"],
      [
        [
          "`ldapsearch`",
          "its output thrown away",
          seconds(limit),
          "",
          seconds(median(alone.map(({ cpu }) => cpu))),
          "",
          "",
        ],
        ["Rollcall", "the connector reads", ...cells(read, limit)],
        ["Rollcall", "to finished principals", ...cells(assembled, limit)],
        ...peers.map(({ name, does, milliseconds, cpu }) => [
          name,
          does,
          seconds(milliseconds),
          (milliseconds / limit).toFixed(2),
          seconds(cpu),
          "",
          "",
        ]),
      ],
    ),
  );
  const title = (what: string): string => `${users.toLocaleString("en")} users from OpenLDAP: ${what}`;
  const figure = (what: string, timings: readonly LdapReadTiming[], goal: number): Figure => ({
    what: title(what),
    value: median(timings.map(({ milliseconds }) => milliseconds)),
    unit: "ms",
    limit: { by: "ldapsearch", value: limit },
    goal,
    cpu: median(timings.map(({ cpu }) => cpu)),
    memory: Math.max(...timings.map(({ memory }) => memory)),
  });
  const ofPeers = peers.map(({ name, does, milliseconds, cpu }): Figure => ({
    what: title(`${name}, which ${does}`),
    value: milliseconds,
    unit: "ms",
    limit: { by: "ldapsearch", value: limit },
    cpu,
  }));
  return [figure("read", read, 1.3), figure("to finished principals", assembled, 2), ...ofPeers];
}

function* directory(size: Size): Generator<string> {
  yield ldifEntry(people, { objectClass: "organizationalUnit" });
  yield ldifEntry(groups, { objectClass: "organizationalUnit" });
  const dn = (index: number): string => `uid=user${index},${people}`;
  for (let index = 0; index < size.users; index++) {
    yield ldifEntry(dn(index), {
      objectClass: "inetOrgPerson",
      cn: `Jörg Müller ${index}`,
      sn: `Müller ${index}`,
      mail: `user${index}@example.com`,
      employeeNumber: String(index),
    });
  }
  for (let index = 0; index < size.groups; index++) {
    const first = Math.floor((size.memberships * index) / size.groups);
    const next = Math.floor((size.memberships * (index + 1)) / size.groups);
    const member = Array.from({ length: next - first }, (_, offset) => dn((first + offset) % size.users));
    yield ldifEntry(`cn=group${index},${groups}`, {
      objectClass: "groupOfNames",
      description: `Everyone of team ${index}`,
      member,
    });
  }
}

/** In milliseconds, from the start of programs to their end. */
interface Timing {
  readonly milliseconds: number;
  readonly cpu: number;
}

/** @param work starts programs and waits for their end */
async function timed(work: () => Promise<void>): Promise<Timing> {
  const [started, before] = [performance.now(), await cpuTimes("self")];
  await work();
  const milliseconds = performance.now() - started;
  return { milliseconds, cpu: (await cpuTimes("self")).ended - before.ended };
}

/** Users and groups. */
async function ldapsearch(server: OpenLdap): Promise<Timing> {
  const login = ["-LLL", "-x", "-H", server.url, "-D", reader.dn, "-w", reader.password];
  const paged = ["-E", `pr=${pageSize}/noprompt`];
  const { path, env } = server.packages;
  return timed(async () => {
    for (const search of [
      ["-b", people, "(objectClass=inetOrgPerson)", "entryUUID", "uid", "cn", "mail"],
      ["-b", groups, "(objectClass=groupOfNames)", "entryUUID", "cn", "description", "member"],
    ]) {
      const child = spawn(path("/usr/bin/ldapsearch"), [...login, ...paged, ...search], { stdio: "ignore", env });
      const [code] = (await once(child, "exit")) as [number | null];
      if (code !== 0) throw new Error(`ldapsearch ended with ${code}`);
    }
  });
}

function connector(server: OpenLdap, work: LdapReadRequest["work"], memory: number): Promise<LdapReadTiming> {
  const options = {
    url: server.url,
    bind: reader,
    users: { base: people, filter: "(objectClass=inetOrgPerson)" },
    groups: { base: groups, filter: "(objectClass=groupOfNames)" },
    membership: ["member"],
    pageSize,
  };
  return runApart<LdapReadTiming>("ldap-read.ts", { work, options, memory } satisfies LdapReadRequest);
}

/** A bench of a read that misses something is worth nothing. */
function expected(size: Size, timing: LdapReadTiming): LdapReadTiming {
  for (const what of ["users", "groups", "memberships"] as const) {
    if (timing[what] !== size[what]) throw new Error(`${timing[what]} ${what} arrived of ${size[what]}`);
  }
  return timing;
}

function cells(timings: readonly LdapReadTiming[], limit: number): string[] {
  const time = median(timings.map(({ milliseconds }) => milliseconds));
  return [
    seconds(time),
    (time / limit).toFixed(2),
    seconds(median(timings.map(({ cpu }) => cpu))),
    `${(Math.max(...timings.map(({ memory }) => memory)) / 1024 ** 2).toFixed(0)} MiB`,
    `${Math.max(...timings.map(({ delay }) => delay)).toFixed(0)} ms`,
  ];
}

function seconds(milliseconds: number | undefined): string {
  return `${((milliseconds ?? 0) / 1000).toFixed(2)} s`;
}
