import { existsSync } from "node:fs";
import { access, chmod, constants, link, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join, parse, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { stringify } from "yaml";
import { InputError } from "#errors.ts";
import { refuseForeignFolder } from "#daemon/data-folder.ts";
import { exists, makeFolder, unwritable } from "#files/disk.ts";
import { modeForOthers } from "#files/private.ts";
import { root } from "#root.ts";
import type { Draft, Secret } from "./draft.ts";
import { approvals, names } from "./draft.ts";

/** The configuration as text, with comments on everything that is often changed. */
function renderDraft({ source, rules, target, approval, schedule }: Draft, folder: string): string {
  const { connector, options } = source;
  const others = Object.keys(approvals)
    .filter((each) => each !== approval)
    .join(", or ");
  return `${schemaLine(folder)}# Written by \`rollcall init\`. Paths are relative to this file. \${env:NAME} and \${file:PATH} stand for values that
# should not be in it. \`rollcall check\` tests everything, \`rollcall plan\` shows what a run would change.

service:
  listen: 127.0.0.1:8442
  # Everything that is stored: back it up.
  data: data
  # tls: { cert: cert.pem, key: key.pem }      # required before it can listen on an address that other machines reach

targets:
${block({ [names.target]: targetOf(target) }, 2)}

sources:
${block({ [names.source]: { connector, ...options } }, 2)}

syncs:
  ${names.sync}:
    from: [${names.source}]
    to: ${names.target}
${schedule === undefined ? '    # schedule: "*/15 * * * *"               # until set, it runs on demand: rollcall apply' : `    schedule: ${JSON.stringify(schedule)}`}
    # CEL expressions over the attributes of a record.
    users:
${rules.users.include === undefined ? `      # include: 'entry.status == "active"'    # true for the records to include (default: all)\n` : ""}${block(rules.users, 6)}
${rules.users.groups === undefined ? "" : "    groupsFromRules: create                  # what users.groups names is a group\n"}${rules.groups === undefined ? "    # groups:                                # without rules for groups, no group is changed\n" : `    groups:\n${block(rules.groups, 6)}\n`}    # \`owned\`: changes and deletes only what this sync created or adopted; \`everything\`: all that is not protected.
    manage: owned
    protect:
      users: []                              # ["svc-*"]
      groups: []
    # Users and groups missing from the source are deleted after a week (0: at once). That leaves time to notice a mistake
    # there, and anybody who comes back in time has lost nothing. The plan says who will be deleted, and when.
    deletions: { after: 7d }
    # Which plans need a person's approval. ${approval}: ${approvals[approval]}.
    ${`approval: ${approval}`.padEnd(38)} # ${others}
    # approvalExpires: 24h                   # a plan that waits longer expires
    # A run that changes more than this is held until a person approves it. These are the defaults.
    limits:
      deletes: 10%                           # of the users, and of the groups, that it manages
      updates: 50%
      membershipsLost: 25%
      blanked: 10%                           # mail addresses and descriptions that become empty
      shrink: 20%                            # how many fewer records than last time the source may have
      quarantined: 20%                       # of the records in scope, those that are in doubt
      floor: 10                              # percentages do not apply up to this many changes
      per: day
    # If no run has succeeded for this long, a notification is sent and /readyz answers 503.
    # overdueAfter: 26h
    # heartbeat: "\${env:HEARTBEAT_URL}"      # a URL to request after each successful run

# Who is notified when a plan waits, a run is held or fails, or a sync is overdue. Webhooks and chat work too.
# notifications:
#   operations:
#     by: email
#     server: smtp://mail.example.com
#     from: Rollcall <rollcall@example.com>
#     to: [ops@example.com]
`;
}

const schema = fileURLToPath(new URL("config/schema.json", root));

/** What tells editors where the schema is, for completion and checks; empty where it is not installed. */
export function schemaLine(folder: string): string {
  if (!existsSync(schema)) return "";
  const near = relative(folder, schema);
  return `# yaml-language-server: $schema=${near.startsWith("..") ? schema : near}\n`;
}

function targetOf(target: Draft["target"]): unknown {
  if (target === "embedded") return target;
  const { secret, ...rest } = target;
  return { ...rest, password: secret.reference };
}

/** The files written, and the new name of a file that one of them replaced. */
export interface Written {
  readonly written: readonly string[];
  readonly kept: readonly string[];
}

/**
 * Writes the files of the secrets and the configuration, checks it with `load`, and only then gives it its name. So a
 * failure leaves nothing behind, and a kill at any moment never leaves you without the configuration you had. A file of a
 * secret is never replaced: the old configuration may still need it.
 * @throws {InputError} if the file exists and must not be replaced; also what `load` throws
 */
export async function writeDraft(
  file: string,
  draft: Draft,
  options: { readonly force: boolean; readonly load: (file: string) => Promise<unknown> },
): Promise<Written> {
  const folder = dirname(resolve(file));
  await refuseForeignFolder(folder, { what: "folder" });
  await makeFolder(folder, "the configuration's folder");
  const temporary = join(folder, `.rollcall-init-${process.pid}.yaml`);
  const made: string[] = [];
  try {
    let text = renderDraft(draft, folder);
    for (const { file: name, reference, value } of secretsOf(draft)) {
      if (name === undefined) continue;
      const path = await writeSecret(join(folder, name), value);
      made.push(path);
      text = text.replaceAll(reference, `\${file:${basename(path)}}`);
    }
    await writeFile(temporary, text, { flag: "wx" }).catch(refuseUnwritable(temporary));
    await chmod(temporary, modeForOthers());
    await options.load(temporary);
    const backup = options.force ? await keepBeside(file) : undefined;
    if (backup === undefined) {
      // Unlike a rename, a link never replaces a file that somebody else has just written.
      await link(temporary, file).catch(refuseUnwritable(file));
      await rm(temporary);
    } else {
      await rename(temporary, file);
    }
    return { written: [file, ...made], kept: backup === undefined ? [] : [backup] };
  } catch (error) {
    for (const path of [temporary, ...made]) await rm(path, { force: true });
    throw error;
  }
}

/**
 * Checks the file before any question is asked.
 * @throws {InputError} if the file would replace another one, or could not be written
 */
export async function refuseEarly(file: string, force: boolean): Promise<void> {
  if (!force && (await exists(file))) throw existing(file);
  let folder = dirname(resolve(file));
  while (!(await exists(folder)) && folder !== dirname(folder)) folder = dirname(folder);
  if (!(await stat(folder)).isDirectory()) throw new InputError(`${file} cannot be written: ${folder} is not a folder`);
  await access(folder, constants.W_OK | constants.X_OK).catch(refuseUnwritable(file));
}

function secretsOf({ source, target }: Draft): readonly Secret[] {
  return [...source.secrets, ...(target === "embedded" ? [] : [target.secret])];
}

/** Writes to `company.secret`, or the first free name of `company-2.secret` and so on. */
async function writeSecret(path: string, value: string): Promise<string> {
  const { dir, name, ext } = parse(path);
  for (let number = 1; ; number++) {
    const free = number === 1 ? path : join(dir, `${name}-${number}${ext}`);
    try {
      await writeFile(free, `${value}\n`, { mode: 0o600, flag: "wx" });
      return free;
    } catch (error) {
      if (!isExisting(error)) refuseUnwritable(free)(error);
    }
  }
}

/** Gives an existing file a second name: the first free one of `NAME.1`, `NAME.2`, … */
async function keepBeside(path: string): Promise<string | undefined> {
  if (!(await exists(path))) return undefined;
  for (let number = 1; ; number++) {
    const backup = `${path}.${number}`;
    try {
      await link(path, backup);
      return backup;
    } catch (error) {
      if (!isExisting(error)) refuseUnwritable(backup)(error);
    }
  }
}

function existing(path: string): InputError {
  return new InputError(
    `${path} already exists: name another file with --config, or replace it with --force, which keeps a backup beside it`,
  );
}

function isExisting(error: unknown): boolean {
  return (error as { code?: unknown }).code === "EEXIST";
}

function refuseUnwritable(path: string): (error: unknown) => never {
  return (error) => {
    if (isExisting(error)) throw existing(path);
    throw unwritable(path, error);
  };
}

/** A value as YAML, indented by `depth` spaces. */
function block(value: unknown, depth: number): string {
  return stringify(value, { lineWidth: 0 })
    .trimEnd()
    .replaceAll(/^(?=.)/gm, " ".repeat(depth));
}
