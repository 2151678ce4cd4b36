import type { BuiltInConnector } from "#connector.ts";
import { messageOf } from "#errors.ts";
import type { Approval, Draft, DraftRule, DraftRules, DraftSource, Secret } from "./draft.ts";
import { approvals, names, usualAttribute } from "./draft.ts";
import { columnsOf, openDraft, outcomesOf, problemsOf } from "./probe.ts";
import type { Found } from "./probe.ts";

/** What the questions need from the command. */
export interface Setting {
  readonly connectors: readonly BuiltInConnector[];
  /** The folder of the configuration file. */
  readonly folder: string;
  say(line: string): void;
  /** Prints why an answer cannot be used, so that the question can be repeated; rethrows errors that no other answer would fix. */
  refuse(error: unknown): void;
  /** Runs work that Ctrl-C cancels. */
  interruptible<Result>(work: (signal: AbortSignal) => Promise<Result> | undefined): Promise<Result | undefined>;
}

const none = "(none)";

/** Asks for a source until `read` succeeds with it. Earlier answers are offered as defaults. */
export async function askSource<Result>(
  setting: Setting,
  read: (source: DraftSource) => Promise<Result>,
): Promise<{ readonly source: DraftSource; readonly found: Result }> {
  const { select } = await prompts();
  const connector = await select({
    message: "Where do the users and groups come from?",
    choices: [
      { name: "LDAP: OpenLDAP, Active Directory and others", value: "ldap" },
      { name: "CSV files", value: "csv" },
      { name: "SCIM 2.0: a server", value: "scim" },
    ],
  });
  const before = new Map<string, string>();
  const asking = { csv: askCsv, ldap: askLdap, scim: askScim }[connector] ?? askCsv;
  for (;;) {
    try {
      const source = await asking(setting, before);
      return { source, found: await read(source) };
    } catch (error) {
      setting.refuse(error);
    }
  }
}

async function askCsv(setting: Setting, before: Before): Promise<DraftSource> {
  const { select } = await prompts();
  const columnsFor = async (key: string, message: string, check: typeof required) => {
    const file = await ask(before, key, message, check);
    if (file === "") return undefined;
    const columns = await columnsOf(file, setting.folder);
    setting.say(`  columns: ${columns.names.join(", ")}`);
    return { file, ...columns };
  };
  const column = (message: string, columns: readonly string[], usual: string | undefined, extra: string[] = []) =>
    select({ message, choices: [...extra, ...columns], default: usual ?? extra[0] ?? columns[0] ?? "" });
  const isReadable = must((value) => columnsOf(value, setting.folder));
  const users = await columnsFor("users", `File of users (relative to ${setting.folder}):`, isReadable);
  if (users === undefined) throw new Error("a file of users is required");
  const id = await column(
    "Which column identifies a person permanently, even after a rename?",
    users.names,
    usualAttribute("id", users.names),
  );
  const groups = await columnsFor(
    "groups",
    "File of groups (leave empty for none):",
    must(async (value) => {
      if (value !== "") await columnsOf(value, setting.folder);
    }),
  );
  if (groups === undefined) return { connector: "csv", options: { users: part(users, id) }, secrets: [] };
  const groupId = await column(
    "Which column identifies a group?",
    groups.names,
    usualAttribute("groupId", groups.names),
  );
  const memberOf = await column(
    "Which column of the users lists their groups?",
    users.names,
    usualAttribute("memberOf", users.names),
    [none],
  );
  return {
    connector: "csv",
    options: {
      users: { ...part(users, id), memberOf: memberOf === none ? undefined : { column: memberOf } },
      groups: part(groups, groupId),
    },
    secrets: [],
  };
}

function part({ file, dialect }: { readonly file: string; readonly dialect: object }, id: string): object {
  return { file, ...dialect, id };
}

async function askLdap(setting: Setting, before: Before): Promise<DraftSource> {
  const { confirm } = await prompts();
  const url = await ask(before, "url", "The server's address (ldaps://HOST or ldap://HOST):");
  const plain = url.startsWith("ldap://");
  const starttls =
    plain &&
    (await confirm({ message: "Protect the connection with StartTLS?", default: before.get("starttls") !== "no" }));
  before.set("starttls", starttls ? "yes" : "no");
  const protectedBy = starttls || !plain;
  const ca = protectedBy ? await askAuthority(before) : undefined;
  const dn = await ask(before, "dn", "Log in as (a DN, or user@domain; leave empty for anonymous):", optional);
  const secret = dn === "" ? undefined : await askSecret(`Password of ${dn}`, `${names.source}.secret`);
  const connection = {
    url,
    tls: starttls || ca !== undefined ? { starttls: starttls || undefined, ca } : undefined,
    bind: secret === undefined ? undefined : { dn, password: secret.reference },
  };
  const secrets = secret === undefined ? [] : [secret];
  const server = await openDraft(
    setting.connectors,
    { connector: "ldap", options: { ...connection, users: { base: "dc=example" } }, secrets },
    setting.folder,
  );
  const places = (await setting.interruptible((signal) => server.places?.({ signal, warn: setting.say }))) ?? [];
  if (places.length > 0) setting.say(`  connected; the server holds ${places.join(" and ")}`);
  const base = await ask(before, "users", "Where are the users (a DN)?", required, places[0]);
  const groups = await ask(before, "groups", "Where are the groups (a DN; leave empty to read none)?", optional, base);
  return {
    connector: "ldap",
    options: { ...connection, users: { base }, groups: groups === "" ? undefined : { base: groups } },
    secrets,
  };
}

async function askScim(_setting: Setting, before: Before): Promise<DraftSource> {
  const { select } = await prompts();
  const url = await ask(before, "url", "The server's address (https://HOST/scim/v2):");
  const server = { url, ca: url.startsWith("https:") ? await askAuthority(before) : undefined };
  const kind = await select({
    message: "How does Rollcall log in?",
    choices: [
      { name: "with a token", value: "bearer" },
      { name: "with a user name and a password", value: "basic" },
      { name: "without logging in", value: "none" },
    ],
  });
  const file = `${names.source}.secret`;
  if (kind === "none") return { connector: "scim", options: server, secrets: [] };
  if (kind === "bearer") {
    const secret = await askSecret("Token", file);
    return { connector: "scim", options: { ...server, auth: { bearer: secret.reference } }, secrets: [secret] };
  }
  const username = await ask(before, "username", "User:");
  const secret = await askSecret(`Password of ${username}`, file);
  const basic = { username, password: secret.reference };
  return { connector: "scim", options: { ...server, auth: { basic } }, secrets: [secret] };
}

/** Shows what the proposed rules make of the first records, and asks for changes until they are accepted. */
export async function askRules(setting: Setting, found: Found, proposed: DraftRules): Promise<DraftRules> {
  const { confirm } = await prompts();
  for (let rules = proposed; ;) {
    setting.say(`  rules: ${JSON.stringify(rules)}`);
    for (const line of outcomesOf(rules, found.samples)) setting.say(`  ${line}`);
    if (
      await confirm({ message: "Use these rules? (no: change them now; you can also edit them in the file later)" })
    ) {
      return rules;
    }
    const users = await changeRules("users", rules.users, (rule) => problemsOf({ ...rules, users: rule }));
    const { groups } = rules;
    rules = {
      users,
      ...(groups === undefined
        ? {}
        : { groups: await changeRules("groups", groups, (rule) => problemsOf({ users, groups: rule })) }),
    };
  }
}

async function changeRules(
  kind: string,
  rules: DraftRule,
  problems: (rules: DraftRule) => readonly string[],
): Promise<DraftRule> {
  const { input } = await prompts();
  const changed = { ...rules };
  for (const [rule, expression] of Object.entries(rules) as [keyof DraftRule, string][]) {
    const validate = must((value) => {
      const [problem] = problems(Object.assign({ ...changed }, { [rule]: value }));
      if (problem !== undefined) throw new Error(problem);
    });
    const answer = await input({ message: `${kind}.${rule}:`, default: expression, validate });
    Object.assign(changed, { [rule]: answer.trim() });
  }
  return changed;
}

/** @param login tries a target; throws if it cannot be used */
export async function askTarget(
  setting: Setting,
  login: (target: Exclude<Draft["target"], "embedded">) => Promise<void>,
): Promise<Draft["target"]> {
  const { select } = await prompts();
  const kind = await select({
    message: "Which service should users and groups be written to?",
    choices: [
      { name: "the one that Rollcall runs itself", value: "embedded" },
      { name: "another one", value: "remote" },
    ],
  });
  if (kind === "embedded") return "embedded";
  const before: Before = new Map();
  for (;;) {
    try {
      const url = await ask(before, "url", "Address of the service (https://HOST):");
      const username = await ask(before, "username", "A user with the administration privilege:");
      const ca = url.startsWith("https:") ? await askAuthority(before) : undefined;
      const target = {
        url,
        ca,
        username,
        secret: await askSecret(`Password of ${username}`, `${names.target}.secret`),
      };
      await login(target);
      return target;
    } catch (error) {
      setting.refuse(error);
    }
  }
}

export async function askSchedule(check: (expression: string) => void): Promise<string | undefined> {
  const { select, input } = await prompts();
  const choice = await select({
    message: "When should it run?",
    choices: [
      { name: "every 15 minutes", value: "*/15 * * * *" },
      { name: "every hour", value: "0 * * * *" },
      { name: "every night at 2", value: "0 2 * * *" },
      { name: "at other times", value: "other" },
      { name: "only on demand", value: "" },
    ],
  });
  if (choice !== "other") return choice === "" ? undefined : choice;
  return (await input({ message: "Cron expression:", validate: must(check) })).trim();
}

export async function askApproval(): Promise<Approval> {
  const { select } = await prompts();
  return select({
    message: "Who lets a plan be applied?",
    choices: (Object.keys(approvals) as Approval[]).map((value) => ({ name: `${value}: ${approvals[value]}`, value })),
  });
}

/** Loaded late: only `init` at a terminal needs them. */
const prompts = () => import("@inquirer/prompts");

/** Returns true for a usable answer, and what is wrong with any other. */
function must(check: (value: string) => unknown): (value: string) => Promise<string | true> {
  return async (value) => {
    try {
      await check(value.trim());
      return true;
    } catch (error) {
      return messageOf(error);
    }
  };
}

const required = must((value) => {
  if (value === "") throw new Error("an answer is required");
});

/** Earlier answers by key, offered as defaults when a question is repeated. */
export type Before = Map<string, string>;

async function ask(before: Before, key: string, message: string, check = required, fallback = ""): Promise<string> {
  const { input } = await prompts();
  const answer = (await input({ message, default: before.get(key) ?? fallback, validate: check })).trim();
  before.set(key, answer);
  return answer;
}

const optional = must(() => undefined);

/** The file of the certificate authority to trust; undefined: those trusted by default. */
async function askAuthority(before: Before): Promise<string | undefined> {
  const message = "File with the certificate of the authority to trust (PEM; leave empty for the public ones):";
  const ca = await ask(before, "ca", message, optional);
  return ca === "" ? undefined : ca;
}

/** Asks for a secret and where to store it: never in the configuration itself. */
async function askSecret(what: string, file: string): Promise<Secret> {
  const { select, password, input } = await prompts();
  const place = await select({
    message: `${what}: where should it be stored?`,
    choices: [
      { name: `in ${file} beside the configuration, readable only by you`, value: "file" },
      { name: "in an environment variable that is already set", value: "env" },
    ],
  });
  if (place === "env") {
    const isSet = must((name) => {
      if (!/^[A-Za-z_]\w*$/.test(name)) throw new Error("expected the name of a variable, like LDAP_PASSWORD");
      if ((process.env[name] ?? "") === "") throw new Error(`the variable ${name} is not set here`);
    });
    const name = (await input({ message: "Name of the variable:", validate: isSet })).trim();
    return { reference: `\${env:${name}}`, value: process.env[name] ?? "" };
  }
  const value = await password({ message: `${what}:`, mask: "*", validate: required });
  return { reference: `\${file:${file}}`, value, file };
}
