import type { BuiltInConnector, Question } from "#connector.ts";
import { InputError } from "#errors.ts";
import { formatName, printable } from "#text.ts";

import { Answers, must, optional, prompts, required } from "./answers.ts";
import { columnsOf, describeDialect, separatorIn } from "./csv-file.ts";
import type { Columns } from "./csv-file.ts";
import type { Approval, Draft, DraftRule, DraftRules, DraftSource, Secret } from "./draft.ts";
import {
  approvals,
  groupAttributes,
  likelyLogin,
  likelyMemberOf,
  names,
  proposeRules,
  usualAttribute,
} from "./draft.ts";
import { openDraft, outcomesOf, problemsOf } from "./probe.ts";
import type { Found } from "./probe.ts";

/** What the questions need from the command. */
export interface Setting {
  readonly connectors: readonly BuiltInConnector[];
  /** The folder of the configuration file. */
  readonly folder: string;
  readonly say: (line: string) => void;
  /** Prints why an answer cannot be used, so that the question can be repeated; rethrows errors that no other answer would fix. */
  readonly refuse: (error: unknown) => void;
  /** Runs work that Ctrl-C cancels. */
  interruptible<Result>(work: (signal: AbortSignal) => Promise<Result> | undefined): Promise<Result | undefined>;
}

/** Asks for a source until `read` succeeds with it. */
export async function askSource<Result>(
  setting: Setting,
  read: (source: DraftSource) => Promise<Result>,
): Promise<{ readonly source: DraftSource; readonly found: Result }> {
  const { select } = await prompts();
  const connector = await select({
    message: "Where do the users and groups come from?",
    choices: setting.connectors.map(({ name, title }) => ({ name: title, value: name })),
    pageSize: 15,
    loop: false,
  });
  const own = { csv: askCsv, ldap: askLdap }[connector];
  const asking = own ?? (await questionsOf(setting, connector));
  return Answers.until(setting.refuse, async (answers) => {
    const source = await asking(setting, answers);
    return { source, found: await read(source) };
  });
}

const none = { name: "(none)", value: "" } as const;

async function askCsv(setting: Setting, answers: Answers): Promise<DraftSource> {
  const columnsFor = async (key: string, label: string, message: string, check = required) => {
    const file = await answers.text(key, label, { message, check });
    if (file === "") return undefined;
    const columns = await columnsOf(file, setting);
    setting.say(`  ${describeDialect(columns.dialect)}; columns: ${columns.names.join(", ")}`);
    return { file, ...columns };
  };
  const column = (key: string, label: string, message: string, { names, examples }: Columns, usual?: string) =>
    answers.choice(key, label, { message, choices: examples.choices(names), fallback: usual });
  const isReadable = must((value) => columnsOf(value, setting));
  const users = await columnsFor(
    "users",
    "file of users",
    `File of users (relative to ${formatName(setting.folder)}):`,
    isReadable,
  );
  if (users === undefined) throw new Error("a file of users is required");
  const id = await column(
    "id",
    "column that identifies a person",
    "Which column identifies a person permanently, even after a rename?",
    users,
    usualAttribute("id", users.names),
  );
  const groups = await columnsFor(
    "groups",
    "file of groups",
    "File of groups (leave empty for none):",
    must(async (value) => {
      if (value !== "") await columnsOf(value, setting);
    }),
  );
  if (groups === undefined) return { connector: "csv", options: { users: part(users, id) }, secrets: [] };
  const groupId = await column(
    "groupId",
    "column that identifies a group",
    "Which column identifies a group?",
    groups,
    usualAttribute("groupId", groups.names),
  );
  const memberOf = await answers.choice("memberOf", "column of a person's groups", {
    message: "Which column of the users lists their groups?",
    choices: [none, ...users.examples.choices(users.names)],
    fallback: likelyMemberOf(users.examples, groups.examples.of(groupId)),
  });
  return {
    connector: "csv",
    options: {
      users: { ...part(users, id), memberOf: memberOf === "" ? undefined : memberOfIn(users, memberOf) },
      groups: part(groups, groupId),
    },
    secrets: [],
  };
}

/** The option `memberOf` for a column; other separators than `;` are named. */
export function memberOfIn({ examples }: Columns, column: string): object {
  const separator = separatorIn(examples.of(column));
  return { column, separator: separator === ";" ? undefined : separator };
}

function part({ file, dialect }: { readonly file: string; readonly dialect?: object | undefined }, id: string): object {
  return { file, ...dialect, id };
}

async function askLdap(setting: Setting, answers: Answers): Promise<DraftSource> {
  const { confirm } = await prompts();
  const url = await answers.text("url", "address", {
    message: "The server's address (ldaps://HOST or ldap://HOST), or a file in LDIF:",
  });
  if (!url.includes("://")) return askLdif(answers, url);
  const plain = url.startsWith("ldap://");
  const starttls =
    plain &&
    (await answers.once<boolean>(
      "tls",
      "StartTLS",
      (before) => confirm({ message: "Protect the connection with StartTLS?", default: before ?? true }),
      (value) => (value ? "yes" : "no"),
    ));
  const protectedBy = starttls || !plain;
  const ca = protectedBy ? await askAuthority(answers) : undefined;
  const dn = await answers.text("dn", "login", {
    message: "Log in as (a DN, or user@domain; leave empty for anonymous):",
    check: optional,
  });
  const secret =
    dn === "" ? undefined : await askSecret(answers, `Password of ${formatName(dn)}`, `${names.source}.secret`);
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
  if (places.length > 0) setting.say(`  connected; the server holds ${places[0]}`);
  const base = await askPlace(answers, "users", "Where are the users?", places, /^(?:ou|cn)=(?:users|people|staff)\b/i);
  const groups = await askPlace(
    answers,
    "groups",
    "Where are the groups?",
    places,
    /^(?:ou|cn)=groups?\b/i,
    "(none: read no groups)",
    base,
  );
  return {
    connector: "ldap",
    options: { ...connection, users: { base }, groups: groups === "" ? undefined : { base: groups } },
    secrets,
  };
}

/** A file in LDIF. One that does not say how many entries it has, as `slapcat` writes it, needs minimums. */
async function askLdif(answers: Answers, file: string): Promise<DraftSource> {
  const least = async (kind: "users" | "groups"): Promise<number | undefined> => {
    const answer = await answers.text(kind, `fewest ${kind}`, {
      message: `The fewest ${kind} that it may have (leave empty if ldapsearch wrote it):`,
      check: must((value) => {
        if (!/^\d*$/.test(value)) throw new InputError("expected a whole number, or nothing");
      }),
    });
    return answer === "" ? undefined : Number(answer);
  };
  const part = async (kind: "users" | "groups") => ({ minEntries: await least(kind) });
  return {
    connector: "ldap",
    options: { file, users: await part("users"), groups: await part("groups") },
    secrets: [],
  };
}

/** A DN from a list; or typed, where the server has none, or the list lacks it. */
async function askPlace(
  answers: Answers,
  kind: "users" | "groups",
  message: string,
  places: readonly string[],
  usual: RegExp,
  nothing?: string,
  fallback = places[0],
): Promise<string> {
  const other = "another DN";
  const label = `base of the ${kind}`;
  const listed =
    places.length === 0
      ? other
      : await answers.choice(`${kind}List`, label, {
          message,
          choices: [
            ...places.map((value) => ({ name: printable(value), value })),
            { name: other, value: other },
            ...(nothing === undefined ? [] : [{ name: nothing, value: "" }]),
          ],
          fallback: places.find((dn) => usual.test(dn)) ?? fallback,
        });
  if (listed !== other) return listed;
  const hint = nothing === undefined ? "a DN" : "a DN; leave empty to read none";
  return answers.text(kind, label, {
    message: `${message.slice(0, -1)} (${hint})?`,
    check: nothing === undefined ? required : optional,
    fallback,
  });
}

/** @returns what asks the questions that the connector names */
async function questionsOf(
  { connectors }: Setting,
  connector: string,
): Promise<(setting: Setting, answers: Answers) => Promise<DraftSource>> {
  const { questions } = (await connectors.find(({ name }) => name === connector)?.load()) ?? {};
  if (questions === undefined)
    throw new InputError(`a source of the connector ${connector} is written by hand: see its README`);
  return async (_, answers) => {
    const given: Record<string, string> = {};
    const options: Record<string, unknown> = {};
    const secrets: Secret[] = [];
    for (const question of questions) {
      if (question.when?.(given) === false) continue;
      const { option } = question;
      const secret =
        question.isSecret === true
          ? await askSecret(answers, question.message, `${names.source}.secret`, option)
          : undefined;
      if (secret !== undefined) secrets.push(secret);
      const answer = secret?.reference ?? (await askQuestion(answers, question));
      given[option] = answer;
      if (answer !== "" && question.isStep !== true) setOption(options, option.split("."), answer);
    }
    return { connector, options, secrets };
  };
}

function askQuestion(
  answers: Answers,
  { option, label, message, choices, fallback, isOptional }: Question,
): Promise<string> {
  if (choices !== undefined) return answers.choice(option, label, { message, choices, fallback });
  return answers.text(option, label, { message, fallback, check: isOptional === true ? optional : required });
}

function setOption(options: Record<string, unknown>, [first = "", ...rest]: readonly string[], value: string): void {
  if (rest.length === 0) options[first] = value;
  else setOption((options[first] ??= {}) as Record<string, unknown>, rest, value);
}

/** Asks for the login, shows what the rules make of the first records, and asks for changes until they are accepted. */
export async function askRules(setting: Setting, found: Found, hasGroups: boolean): Promise<DraftRules> {
  const { confirm, select } = await prompts();
  const attributes = found.seen.users.names();
  const login =
    attributes.length === 0
      ? undefined
      : await select({
          message: "Which one do people log in with? It becomes the name.",
          choices: found.seen.users.choices(attributes),
          default: likelyLogin(found.seen.users) ?? "",
          pageSize: 15,
          loop: false,
        });
  const grouping = hasGroups ? "" : await askGrouping(found.seen.users);
  for (let rules = proposeRules(found.seen, hasGroups, login, grouping); ;) {
    for (const [kind, expressions] of Object.entries(rules))
      for (const [rule, expression] of Object.entries<string>(expressions))
        setting.say(`  ${kind}.${rule}: ${expression}`);
    setting.say("");
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

/** @returns the attribute whose values become groups; "" for none */
async function askGrouping(users: Found["seen"]["users"]): Promise<string> {
  const attributes = groupAttributes(users);
  if (attributes.length === 0) return "";
  const { select } = await prompts();
  return select({
    message: "The source has no groups. Which attribute makes them, one for each value?",
    choices: [none, ...users.choices(attributes)],
    default: "",
    pageSize: 15,
    loop: false,
  });
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
  return Answers.until(setting.refuse, async (answers) => {
    const url = await answers.text("url", "address", { message: "Address of the service (https://HOST):" });
    const username = await answers.text("username", "user", {
      message: "A user with the administration privilege:",
    });
    const ca = url.startsWith("https:") ? await askAuthority(answers) : undefined;
    const secret = await askSecret(answers, `Password of ${formatName(username)}`, `${names.target}.secret`);
    const target = { url, ca, username, secret };
    await login(target);
    return target;
  });
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
    message: "Which plans need a person's approval?",
    choices: (Object.keys(approvals) as Approval[]).map((value) => ({ name: `${value}: ${approvals[value]}`, value })),
  });
}

/** The file of the certificate authority to trust; undefined: those trusted by default. */
async function askAuthority(answers: Answers): Promise<string | undefined> {
  const message = "File with the certificate of the authority to trust (PEM; leave empty for the public ones):";
  const ca = await answers.text("ca", "certificate of the authority", { message, check: optional });
  return ca === "" ? undefined : ca;
}

/** Asks for a secret and where to store it: never in the configuration itself. */
function askSecret(answers: Answers, what: string, file: string, key = "password"): Promise<Secret> {
  return answers.once(key, what, async () => {
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
  });
}
