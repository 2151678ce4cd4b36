import { link, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { stringify } from "yaml";
import { InputError, messageOf } from "#errors.ts";
import { exists, makeFolder } from "#plan/folder.ts";
import type { Draft, Secret } from "./init-draft.ts";
import { names } from "./init-draft.ts";

/** The configuration as text, with a comment wherever a person will want to change something. */
function renderDraft({ source, rules, target, schedule }: Draft): string {
  const { connector, options } = source;
  return `# Written by \`rollcall init\`. Paths are relative to this file. \${env:NAME} and \${file:PATH} stand for values that are
# not to be in it. \`rollcall check\` tries everything, \`rollcall plan\` shows what a run would change.

service:
  listen: 127.0.0.1:8442
  # Everything that is stored: back it up.
  data: data
  # tls: { cert: cert.pem, key: key.pem }      # before it listens on another address than this machine's own

targets:
${block({ [names.target]: target === "embedded" ? target : { url: target.url, username: target.username, password: target.secret.reference } }, 2)}

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
    # Who is gone from the source stays this long; a mistake there is noticed by then.
    deletions: { after: 7d }
    # A run that changes more than this is held until a person has looked at it. These are the defaults.
    limits:
      deletes: 10%                           # of the users, and of the groups, that it manages
      updates: 50%
      membershipsLost: 25%
      blanked: 10%                           # mail addresses and descriptions that become empty
      shrink: 20%                            # how much less than last time the source may have
      floor: 10                              # up to so many changes no percentage counts
      per: day
`;
}

/** What was written, and what it took the place of, by its new name. */
export interface Written {
  readonly written: readonly string[];
  readonly kept: readonly string[];
}

/**
 * Writes the secrets' files and the configuration, checks it by \`load\`, and only then gives it its name: what fails
 * leaves nothing behind.
 * @throws {InputError} when there is a file already and it is not to be replaced, or what \`load\` throws
 */
export async function writeDraft(
  file: string,
  draft: Draft,
  options: { readonly force: boolean; readonly load: (file: string) => Promise<unknown> },
): Promise<Written> {
  const folder = dirname(resolve(file));
  await makeFolder(folder, "the configuration's folder");
  const secrets = secretsOf(draft).filter((secret) => secret.file !== undefined);
  const temporary = join(folder, `.rollcall-init-${process.pid}.yaml`);
  const made: string[] = [];
  const aside: { readonly path: string; readonly backup: string }[] = [];
  const setAside = async (path: string): Promise<void> => {
    const backup = await keepAside(path);
    if (backup !== undefined) aside.push({ path, backup });
  };
  try {
    for (const { file: name = "", value } of secrets) {
      const path = join(folder, name);
      if (options.force) await setAside(path);
      await writeFile(path, `${value}\n`, { mode: 0o600, flag: "wx" }).catch(refuseExisting(path));
      made.push(path);
    }
    await writeFile(temporary, renderDraft(draft), { flag: "wx" });
    await options.load(temporary);
    if (options.force) await setAside(file);
    // A link, unlike a rename, never replaces what somebody else has written meanwhile.
    await link(temporary, file).catch(refuseExisting(file));
    await rm(temporary);
    return { written: [file, ...made], kept: aside.map(({ backup }) => backup) };
  } catch (error) {
    for (const path of [temporary, ...made]) await rm(path, { force: true });
    for (const { path, backup } of aside) await rename(backup, path);
    throw error;
  }
}

/** @throws {InputError} when it would have to replace something */
export async function refuseToReplace(file: string, force: boolean): Promise<void> {
  if (!force && (await exists(file))) throw existing(file);
}

function secretsOf({ source, target }: Draft): readonly Secret[] {
  return [...source.secrets, ...(target === "embedded" ? [] : [target.secret])];
}

/** Gives a file that is there another name: the first of `NAME.1`, `NAME.2`, … that is free. */
async function keepAside(path: string): Promise<string | undefined> {
  if (!(await exists(path))) return undefined;
  for (let number = 1; ; number++) {
    const backup = `${path}.${number}`;
    if (await exists(backup)) continue;
    await rename(path, backup);
    return backup;
  }
}

function existing(path: string): InputError {
  return new InputError(
    `${path} exists already: name another file with --config, or replace it with --force, which keeps the old one beside it`,
  );
}

function refuseExisting(path: string): (error: unknown) => never {
  return (error) => {
    if ((error as { code?: unknown }).code === "EEXIST") throw existing(path);
    throw new InputError(`${path} cannot be written: ${messageOf(error)}`, { cause: error });
  };
}

/** A value as YAML, so far to the right. */
function block(value: unknown, depth: number): string {
  return stringify(value, { lineWidth: 0 })
    .trimEnd()
    .replaceAll(/^(?=.)/gm, " ".repeat(depth));
}
