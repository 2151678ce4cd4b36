import { afterEach, describe, expect, test } from "vitest";
import { commandNames } from "#cli/program.ts";
import { asCalled, asCalledAnywhere, command, setCall } from "#commands.ts";

afterEach(() => {
  setCall(undefined, ["node", "rollcall"], {});
});

test("arguments are quoted where a shell needs it", () => {
  expect(command("approve", "20261121-101235-4f9c2e", "--override", "deletes,updates")).toBe(
    "rollcall approve 20261121-101235-4f9c2e --override deletes,updates",
  );
  expect(command("plan", "all staff")).toBe('rollcall plan "all staff"');
  expect(command("plan", "it's $5")).toBe("rollcall plan 'it'\\''s $5'");
});

describe("a command is shown the way the program was called", () => {
  const root = "/opt/roll call";
  const main = `${root}/bin/rollcall.js`;
  const npm = { npm_package_json: `${root}/package.json`, npm_lifecycle_event: "start" };
  test.each<[string, string, NodeJS.ProcessEnv, string, string]>([
    ["by its name", "/usr/local/bin/rollcall", { PATH: "/bin:/usr/local/bin" }, "rollcall", "rollcall"],
    ["by the name of an executable", "rollcall-arm64", {}, "rollcall-arm64", "rollcall-arm64"],
    ["by its path", "/opt/rollcall", { PATH: "/bin" }, "/opt/rollcall", "/opt/rollcall"],
    ["by a path from here", "./bin/rollcall", { PATH: "/bin" }, "./bin/rollcall", `${process.cwd()}/bin/rollcall`],
    ["by npx", "/work/node_modules/.bin/rollcall", { npm_command: "exec" }, "npx rollcall", "npx rollcall"],
    [
      "by npm start",
      main,
      { ...npm, INIT_CWD: root },
      "npm run rollcall --",
      'npm --prefix "/opt/roll call" run rollcall --',
    ],
    [
      "by npm from another folder",
      main,
      { ...npm, npm_lifecycle_event: "rollcall", INIT_CWD: "/" },
      'npm --prefix "/opt/roll call" run rollcall --',
      'npm --prefix "/opt/roll call" run rollcall --',
    ],
    ["by Node", main, {}, 'node "/opt/roll call/bin/rollcall.js"', 'node "/opt/roll call/bin/rollcall.js"'],
    [
      "by Node within npm test",
      main,
      { npm_lifecycle_event: "test", npm_command: "test" },
      `node "${main}"`,
      `node "${main}"`,
    ],
  ])("%s", (_, argument, env, program, anywhere) => {
    setCall("my config.yaml", ["node", argument], env);
    const text = `Look: \`${command("show", "1")}\`.\n  ${command("approve", "1")}`;
    expect(asCalled(text)).toBe(
      `Look: \`${program} show --config "my config.yaml" 1\`.\n  ${program} approve --config "my config.yaml" 1`,
    );
    expect(asCalledAnywhere(command("audit verify"))).toBe(
      `${anywhere} audit verify --config "${process.cwd()}/my config.yaml"`,
    );
  });

  test("only commands are: neither names that begin like them, nor the program's name", () => {
    setCall("c.yaml", ["node", "rollcall"], {});
    for (const text of ["rollcall: no", "`rollcall planner`", "run rollcall plan yourself", "`other`"])
      expect(asCalled(text)).toBe(text);
  });
});

test("every command is known", () => {
  setCall("c.yaml", ["node", "rollcall"], {});
  const below: Readonly<Record<string, string>> = {
    account: "account add",
    engine: "engine copy",
    notify: "notify test",
    state: "state copy",
  };
  for (const name of commandNames.map((each) => below[each] ?? each))
    expect(asCalled(`\`rollcall ${name} X\``)).toBe(`\`rollcall ${name} --config c.yaml X\``);
});
