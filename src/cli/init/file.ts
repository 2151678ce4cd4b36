import { access, constants, link, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join, parse, resolve } from "node:path";
import { stringify } from "yaml";
import { InputError } from "#errors.ts";
import { exists, makeFolder, unwritable } from "#files/disk.ts";
import type { Draft, Secret } from "./draft.ts";
import { approvals, names } from "./draft.ts";

/** The configuration as text, with a comment wherever a person will want to change something. */
function renderDraft({ source, rules, target, approval, schedule }: Draft): string {
  const { connector, options } = source;
  const others = Object.keys(approvals)
    .filter((each) => each !== approval)
    .join(", or ");
  return `# Written by \`rollcall init\`. Paths are relative to this file. \${env:NAME} and \${file:PATH} stand for values that are
# not to be in it. \`rollcall check\` tries everything, \`rollcall plan\` shows what a run would change.

service:
  listen: 127.0.0.1:8442
  # Everything that is stored: back it up.
  data: data
  # tls: { cert: cert.pem, key: key.pem }      # before it listens on another address than this machine's own

targets:
${block({ [names.target]: targetOf(target) }, 2)}

sources:
${block({ [names.source]: { connector, ...options } }, 2)}

syncs:
  ${names.sync}:
    from: [${names.source}]
    to: ${names.target}
${schedule === undefined ? '    # schedule: "*/15 * * * *"               # it runs on demand: rollcall apply' : `    schedule: ${JSON.stringify(schedule)}`}
    # What becomes of a record: expressions in CEL over its attributes.
    users:
      # include: 'entry.status == "active"'    # true for the records to take; all, when it is not there
${block(rules.users, 6)}
${rules.groups === undefined ? "    # groups:                                # without rules for groups, every group stays as it is\n" : `    groups:\n${block(rules.groups, 6)}\n`}    # Only what this sync created or took over is changed or deleted; \`everything\` is all that is not protected.
    manage: owned
    protect:
      users: []                              # ["svc-*"]
      groups: []
    # Who is gone from the source stays a week (0 deletes at once): a mistake there is noticed by then, and who comes back
    # meanwhile has lost nothing. The plan says who is leaving, and when.
    deletions: { after: 7d }
    # Who lets a plan be applied. ${approval}: ${approvals[approval]}.
    ${`approval: ${approval}`.padEnd(38)} # ${others}
    # approvalExpires: 24h                   # a plan that waits longer has to be made again
    # A run that changes more than this is held until a person has looked at it. These are the defaults.
    limits:
      deletes: 10%                           # of the users, and of the groups, that it manages
      updates: 50%
      membershipsLost: 25%
      blanked: 10%                           # mail addresses and descriptions that become empty
      shrink: 20%                            # how much less than last time the source may have
      quarantined: 20%                       # of the records in scope, those in doubt
      floor: 10                              # up to so many changes no percentage counts
      per: day
    # When no run has succeeded for so long, that is told, and /readyz answers 503.
    # overdueAfter: 26h
    # heartbeat: "\${env:HEARTBEAT_URL}"      # requested after each success

# Who is told when a plan waits, a run is held or has failed, or a sync is overdue; also by webhook and chat.
# notifications:
#   operations:
#     by: email
#     server: smtp://mail.example.com
#     from: Rollcall <rollcall@example.com>
#     to: [ops@example.com]
`;
}

function targetOf(target: Draft["target"]): unknown {
  if (target === "embedded") return target;
  const { secret, ...rest } = target;
  return { ...rest, password: secret.reference };
}

/** What was written, and what it took the place of, by its new name. */
export interface Written {
  readonly written: readonly string[];
  readonly kept: readonly string[];
}

/**
 * Writes the secrets' files and the configuration, checks it by `load`, and only then gives it its name: what fails
 * leaves nothing behind, and a kill at any moment leaves a configuration where one was. A secret's file never takes the
 * place of another one, which the old configuration may still need.
 * @throws {InputError} when there is a file already and it is not to be replaced, or what `load` throws
 */
export async function writeDraft(
  file: string,
  draft: Draft,
  options: { readonly force: boolean; readonly load: (file: string) => Promise<unknown> },
): Promise<Written> {
  const folder = dirname(resolve(file));
  await makeFolder(folder, "the configuration's folder");
  const temporary = join(folder, `.rollcall-init-${process.pid}.yaml`);
  const made: string[] = [];
  try {
    let text = renderDraft(draft);
    for (const { file: name, reference, value } of secretsOf(draft)) {
      if (name === undefined) continue;
      const path = await writeSecret(join(folder, name), value);
      made.push(path);
      text = text.replaceAll(reference, `\${file:${basename(path)}}`);
    }
    await writeFile(temporary, text, { flag: "wx" }).catch(refuseUnwritable(temporary));
    await options.load(temporary);
    const backup = options.force ? await keepBeside(file) : undefined;
    if (backup === undefined) {
      // A link, unlike a rename, never replaces what somebody else has written meanwhile.
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
 * Before anything is asked.
 * @throws {InputError} when the file would replace another one, or could not be written
 */
export async function refuseEarly(file: string, force: boolean): Promise<void> {
  if (!force && (await exists(file))) throw existing(file);
  let folder = dirname(resolve(file));
  while (!(await exists(folder)) && folder !== dirname(folder)) folder = dirname(folder);
  if (!(await stat(folder)).isDirectory()) throw new InputError(`${file} cannot be written: ${folder} is no folder`);
  await access(folder, constants.W_OK | constants.X_OK).catch(refuseUnwritable(file));
}

function secretsOf({ source, target }: Draft): readonly Secret[] {
  return [...source.secrets, ...(target === "embedded" ? [] : [target.secret])];
}

/** Into `company.secret`, or `company-2.secret` and so on, the first that is free. */
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

/** Gives a file that is there a second name: the first of `NAME.1`, `NAME.2`, … that is free. */
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
    `${path} exists already: name another file with --config, or replace it with --force, which keeps the old one beside it`,
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

/** A value as YAML, so far to the right. */
function block(value: unknown, depth: number): string {
  return stringify(value, { lineWidth: 0 })
    .trimEnd()
    .replaceAll(/^(?=.)/gm, " ".repeat(depth));
}
