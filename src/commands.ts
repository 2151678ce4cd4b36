import { basename, delimiter, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";

/*
 * The commands that messages name. A message is built, stored and sent with commands as `command` writes them:
 * `rollcall approve RUN`, in backticks or on a line of their own. `asCalled` turns them into what the reader can paste,
 * right before they are shown.
 */

/** Every command of `cli/program.ts`, and those below them that messages name; a longer name first. */
const names = [
  "account add",
  "apply",
  "approve",
  "audit verify",
  "audit",
  "backup",
  "check",
  "drift",
  "drill",
  "engine copy",
  "explain",
  "export",
  "health",
  "history",
  "inbox token add",
  "inbox",
  "init",
  "load",
  "login",
  "logout",
  "notify test",
  "password",
  "plan",
  "reject",
  "reload",
  "restore",
  "runs",
  "show",
  "sql",
  "start",
  "state copy",
  "status",
  "undo",
  "unmanaged",
  "leaving",
  "validate",
  "version",
] as const;
export type CommandName = (typeof names)[number];

/** A command as it is stored and sent; arguments are quoted for a shell where they need it. */
export function command(name: CommandName, ...args: readonly string[]): string {
  return ["rollcall", name, ...args.map(quoted)].join(" ");
}

/** The options of a command that is about some users and groups alone. */
export function forOptions(names: readonly string[] = []): string[] {
  return names.flatMap((name) => ["--for", name]);
}

/** How this process was called. */
interface Call {
  /** What stands before the name of a command: `npm run rollcall --`. */
  readonly program: string;
  /** The same from any folder. */
  readonly programAnywhere: string;
  /** The value of `--config`, if it was given. */
  readonly config?: string | undefined;
}

let call: Call = { program: "rollcall", programAnywhere: "rollcall" };

/** Remembers how this process was called, for `asCalled`. */
export function setCall(config: string | undefined, argv: readonly string[], env: NodeJS.ProcessEnv): void {
  call = { ...programOf(argv[1] ?? "rollcall", env), config };
}

const written = new RegExp(`(?<=\`|^ *|\\| )rollcall (${names.join("|")})(?![\\w-])`, "gm");

/** The text with its commands as they can be run where this process was called: with its `--config`. */
export function asCalled(text: string): string {
  return rewritten(text, call.program, call.config);
}

/** The same for a reader who may be in another folder, like that of an email: paths are absolute. */
export function asCalledAnywhere(text: string): string {
  return rewritten(text, call.programAnywhere, call.config === undefined ? undefined : resolve(call.config));
}

function rewritten(text: string, program: string, config: string | undefined): string {
  const option = config === undefined ? "" : ` --config ${quoted(config)}`;
  return text.replace(written, (_, name: string) => `${program} ${name}${option}`);
}

/** @param main the file that Node runs: `bin/rollcall.js`, or a link to it; the executable as it was called */
function programOf(main: string, env: NodeJS.ProcessEnv): Call {
  const { npm_lifecycle_event: script, npm_package_json: description, npm_command: npm, INIT_CWD: from } = env;
  const root = dirname(dirname(main));
  if (description === join(root, "package.json") && (script === "start" || script === "rollcall")) {
    const programAnywhere = `npm --prefix ${quoted(root)} run rollcall --`;
    const isInside = from === undefined || from === root || from.startsWith(root + sep);
    return { program: isInside ? "npm run rollcall --" : programAnywhere, programAnywhere };
  }
  const path = relative("", main);
  const isNear = !path.startsWith("..") && !isAbsolute(path);
  if (basename(main).endsWith(".js"))
    return { program: `node ${quoted(isNear ? path : main)}`, programAnywhere: `node ${quoted(main)}` };
  if (npm === "exec" && main.includes(join("node_modules", ".bin")))
    return { program: "npx rollcall", programAnywhere: "npx rollcall" };
  // A shell finds it by its name; what Debian's package puts there starts the last one.
  if (
    basename(main) === main ||
    main === "/usr/lib/rollcall/bin/rollcall" ||
    env["PATH"]?.split(delimiter).includes(dirname(main))
  )
    return { program: basename(main), programAnywhere: basename(main) };
  return { program: quoted(isNear ? `.${sep}${path}` : main), programAnywhere: quoted(resolve(main)) };
}

/** Quoted for a shell where it needs it; in double quotes where these do, which Windows knows as well. */
function quoted(argument: string): string {
  if (/^[\w@%+=:,./\\-]+$/.test(argument) && (sep === "\\" || !argument.includes("\\"))) return argument;
  if (sep === "\\" || !/["$`\\!]/.test(argument)) return `"${argument}"`;
  return `'${argument.replaceAll("'", "'\\''")}'`;
}
