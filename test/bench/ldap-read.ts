import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import ldap from "#connectors/ldap/index.ts";
import { Workbench } from "#duckdb/workbench.ts";
import { assemble } from "#principals/assembly.ts";
import { compileRules } from "#principals/compile.ts";

/** A process of its own: what reading a directory takes, alone or to finished principals. */
export interface LdapReadRequest {
  /** `read`: the source's records, counted and dropped. `assemble`: to principals with their groups. */
  readonly work: "read" | "assemble";
  /** What stands beside `connector: ldap`. */
  readonly options: unknown;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
}

export interface LdapReadTiming {
  /** From opening the source to the last record or principal. */
  readonly milliseconds: number;
  /** The time of all processors together, in milliseconds. */
  readonly cpu: number;
  /** The peak of the whole process, in bytes. */
  readonly memory: number;
  /** The longest delay of the event loop, in milliseconds. */
  readonly delay: number;
  /** Users and groups: records, or principals. */
  readonly users: number;
  readonly groups: number;
  readonly memberships: number;
}

/** As a person would write them; also what a read is asked for. */
const rules = compileRules({
  users: { name: "entry.uid", displayName: "entry.cn", mail: "entry.mail" },
  groups: { name: '"ldap-" + entry.cn', displayName: "entry.cn", description: "entry.description" },
});
const attributes = rules.attributes();
const context = {
  signal: new AbortController().signal,
  warn: console.error,
  ...(attributes === undefined ? {} : { attributes }),
};

const request = JSON.parse(process.argv[2] ?? "") as LdapReadRequest;
const eventLoop = monitorEventLoopDelay({ resolution: 1 });
eventLoop.enable();
const started = performance.now();
const before = process.cpuUsage();
const source = ldap.open(ldap.options.parse(request.options), { name: "bench", folder: tmpdir() });
const counts = request.work === "read" ? await read() : await toPrincipals(request.memory);
const milliseconds = performance.now() - started;
const { user, system } = process.cpuUsage(before);
const timing: LdapReadTiming = {
  ...counts,
  milliseconds,
  cpu: (user + system) / 1000,
  memory: process.resourceUsage().maxRSS * 1024,
  delay: eventLoop.max / 1e6,
};
console.log(JSON.stringify(timing));

type Counts = Pick<LdapReadTiming, "users" | "groups" | "memberships">;

async function read(): Promise<Counts> {
  const seen = { user: 0, group: 0, membership: 0 };
  for await (const batch of source.read(context)) {
    for (const record of batch) {
      seen[record.kind]++;
      if (record.kind !== "membership") seen.membership += record.members.length + record.memberOf.length;
    }
  }
  return { users: seen.user, groups: seen.group, memberships: seen.membership };
}

async function toPrincipals(memory: number): Promise<Counts> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-"));
  const workbench = await Workbench.open({ folder, memory });
  const { connection } = workbench;
  try {
    const sources = [{ name: "bench", records: source.read(context) }];
    await assemble(connection, sources, rules, { signal: context.signal });
    const [row] = await connection.rows<Counts>(`
      SELECT count(*) FILTER (WHERE kind = 'user')::INTEGER AS users, count(*) FILTER (WHERE kind = 'group')::INTEGER AS groups,
        sum(len(group_names))::INTEGER AS memberships FROM assembled`);
    return { users: row?.users ?? 0, groups: row?.groups ?? 0, memberships: row?.memberships ?? 0 };
  } finally {
    await workbench.close();
    await rm(folder, { recursive: true });
  }
}
