import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:tls";
import { expect, test, vi } from "vitest";
import { makeCertificate } from "../../support/certificates.ts";
import type { Certificate } from "../../support/certificates.ts";
import { rollcall } from "../../support/rollcall/command.ts";
import { companyOfEachTest, people } from "../../support/rollcall/company.ts";
import { stopRollcall } from "../../support/rollcall/rollcall.ts";
import { atTerminal } from "../../support/rollcall/terminal.ts";

const company = companyOfEachTest();
const { command } = company;

const daemonAnswers = (): Promise<void> =>
  vi.waitFor(
    async () => {
      expect(JSON.parse((await command("status", "--json")).stdout).daemon).not.toBeNull();
    },
    { timeout: 30_000, interval: 100 },
  );

test("status says on one screen who runs, how every sync stands and what waits, with the commands for it", async () => {
  await company.configure((yaml) => `${yaml}    deletions: { after: 30d }\n    renames: hold\n`);
  const nothing = await command("status");
  expect(nothing).toMatchObject({ code: 0, stderr: "" });
  expect(nothing.stdout).toMatch(
    /^daemon {3}not running: nothing is synced by schedule until `.* start --config \S+`\nservice {2}not running\n/,
  );
  expect(nothing.stdout).toMatch(/\nstaff +analytics +none yet +never +not without the daemon\n$/);
  expect(JSON.parse((await command("status", "--json")).stdout)).toMatchObject({
    daemon: null,
    service: null,
    syncs: [{ sync: "staff", target: "analytics", overdue: false, waiting: [] }],
  });

  expect((await command("apply")).code).toBe(0);
  await company.write(
    "people.csv",
    people
      .replace(/^3,.*\n/m, "")
      .replace("Ada Lovelace", "")
      .replace("2,grace,", "2,hopper,"),
  );
  expect((await command("apply")).code).toBe(0);
  const { stdout: leaving } = await command("status");
  expect(leaving).toMatch(/\nstaff +analytics +no change, (just now|\d+ seconds? ago) +(just now|\d+ seconds? ago) /);
  expect(leaving).toMatch(/\nstaff: 1 user will leave on \d+ \w+ \d{4}\nstaff: 1 record quarantined \(`.* show /);
  expect(leaving).toMatch(/\nstaff: 1 name held, since records were renamed or have another's name \(`.* show /);

  await company.configure((yaml) => yaml.replace(/ {4}deletions.*\n/, "    approval: required\n"));
  expect((await command("apply")).code).toBe(3);
  const { stdout: waiting } = await command("status");
  const id = /\nstaff: run (\S+) waits for approval: 1 user deleted.* \(expires in \d+ (?:hours|days)\)\n/.exec(
    waiting,
  )?.[1];
  expect(waiting).toContain(`show --config ${company.config} ${id}\n`);
  expect(waiting).toContain(`approve --config ${company.config} ${id}\n`);
  const document = JSON.parse((await command("status", "--json")).stdout);
  expect(document.syncs[0]).toMatchObject({ pending: id, waiting: [{ id, state: "pending" }], lastRun: { id } });

  const daemon = company.start();
  await daemonAnswers();
  const running = await command("status");
  const { pid } = daemon.process;
  expect(running.stdout).toMatch(
    new RegExp(`^daemon {3}running since .*Z, (?:just now|.* ago) \\(process ${pid}, http://`),
  );
  expect(running.stdout).toMatch(
    new RegExp(`\nservice {2}running since .*Z, (?:just now|.* ago) \\(process ${pid}, http://`),
  );
  expect(running.stdout).toMatch(/\nstaff +analytics +pending, .* +(?:in \d+ days?|running now)\n/);
  const terminal = atTerminal(["status", "--config", company.config], { cwd: company.folder, columns: 60 });
  expect(await terminal.ended).toBe(0);
  const table = terminal.shown().split(/\r?\n/).slice(3, 6);
  expect(Math.max(...table.map((line) => line.length)), table.join("\n")).toBeLessThanOrEqual(60);
  // eslint-disable-next-line no-control-regex -- a colour
  const colour = /\u001B\[3\dm/;
  expect(terminal.raw()).toMatch(colour);
  const plain = atTerminal(["status", "--no-color", "--config", company.config], { cwd: company.folder });
  expect(await plain.ended).toBe(0);
  expect(plain.raw()).not.toMatch(colour);
  await stopRollcall(daemon);
});

test("reload makes a daemon take the new configuration, or says what is wrong with it", async () => {
  const none = await command("reload");
  expect(none).toMatchObject({ code: 1, stdout: "" });
  expect(none.stderr).toMatch(/neither a service nor a daemon is running .*; `.* start --config \S+` starts them/);
  const daemon = company.start();
  await daemonAnswers();
  await company.configure((yaml) => `${yaml}    approval: required\n`);
  expect((await command("status")).stdout).toContain("the daemon runs with another configuration");
  expect(await command("reload")).toMatchObject({
    code: 0,
    stdout: `reloaded: ${company.config} is in force\n`,
    stderr: "",
  });
  expect((await command("status")).stdout).not.toContain("another configuration");
  // A change that needs a restart.
  await company.configure((yaml) => yaml.replace("127.0.0.1:0", "127.0.0.1:1"));
  const refused = await command("reload");
  expect(refused).toMatchObject({ code: 1, stdout: "" });
  expect(refused.stderr).toMatch(
    /the old configuration stays\n.*service\.listen\.port cannot change while Rollcall runs/s,
  );
  await stopRollcall(daemon);
});

test("reload makes a service without a daemon read its pinboards again", async () => {
  const service = company.start("--only", "service");
  await service.wrote("the service is listening");
  const asked = await command("reload", "--json");
  expect(asked.code, asked.stderr).toBe(0);
  expect(JSON.parse(asked.stdout)).toEqual({ asked: service.process.pid });
  await service.wrote("the configuration was reloaded");
  await stopRollcall(service);
});

test("a renewed certificate stops no run, and is served after a reload; one that does not fit its key is refused", async () => {
  const [first, second] = [await makeCertificate({ ip: ["127.0.0.1"] }), await makeCertificate({ ip: ["127.0.0.1"] })];
  const renew = async ({ cert, key }: Certificate): Promise<void> => {
    await company.write("cert.pem", cert);
    await company.write("key.pem", key);
  };
  const fingerprintOf = ({ cert }: Certificate): string => new X509Certificate(cert).fingerprint256;
  await renew(first);
  await company.configure((yaml) => yaml.replace("data: data", "data: data\n  tls: { cert: cert.pem, key: key.pem }"));
  const daemon = company.start();
  await daemonAnswers();
  const { service } = JSON.parse((await command("status", "--json")).stdout);
  const served = async (): Promise<string> => {
    const socket = connect({ host: "127.0.0.1", port: Number(new URL(service.url).port), rejectUnauthorized: false });
    await once(socket, "secureConnect");
    const { fingerprint256 } = socket.getPeerCertificate();
    socket.destroy();
    return fingerprint256;
  };
  await renew(second);
  expect(await command("apply", "--yes")).toMatchObject({ code: 0 });
  expect(await served()).toBe(fingerprintOf(first));
  expect(await command("reload")).toMatchObject({ code: 0 });
  expect(await served()).toBe(fingerprintOf(second));
  expect(await command("apply", "--yes")).toMatchObject({ code: 0 });
  await renew(await makeCertificate({ ip: ["127.0.0.1"] }, { expired: true }));
  await command("reload");
  await daemon.wrote("service.tls: the certificate was valid until ");
  await renew(second);
  await command("reload");
  await company.write("key.pem", first.key);
  expect((await command("reload")).stderr).toContain("are not a certificate and its key in PEM form");
  expect(await served()).toBe(fingerprintOf(second));
  await stopRollcall(daemon);
});

test("validate connects to nothing: it says what there is, or what is wrong and where", async () => {
  await company.configure((yaml) =>
    yaml.replace("analytics: embedded", 'analytics: { url: "http://127.0.0.1:1", username: u, password: short }'),
  );
  expect(await command("validate")).toMatchObject({
    code: 0,
    stdout: `configuration ${company.config}: valid (1 source, 1 target, 1 sync, a service)\n`,
  });
  expect(JSON.parse((await command("validate", "--json")).stdout)).toEqual({
    configuration: company.config,
    valid: true,
    sources: ["company"],
    targets: ["analytics"],
    syncs: ["staff"],
    notifications: [],
    pinboards: [],
    warnings: [
      expect.stringMatching(/rollcall\.yaml:6:66: targets\.analytics\.password: a secret of less than 8 characters/),
    ],
  });
  await company.configure((yaml) => yaml.replace("mail: entry.mail", "mail: lowr(entry.mail)"));
  const wrong = await command("validate");
  expect(wrong.code).toBe(1);
  expect(wrong.stderr).toMatch(/rollcall\.yaml:\d+:\d+: .*lowr/);
});

test("version says what runs", async () => {
  const { version, ...rest } = JSON.parse((await rollcall(["version", "--json"])).stdout);
  expect(rest).toEqual({ node: process.versions.node, platform: process.platform, arch: process.arch });
  expect((await rollcall(["version"])).stdout).toContain(`rollcall ${version} (Node.js ${process.versions.node}, `);
});
