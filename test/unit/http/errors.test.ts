import { expect, test } from "vitest";
import { formatDuration } from "#text.ts";
import { connectionProblem } from "#http/errors.ts";
import type { Peer } from "#http/errors.ts";

const bare: Peer = {
  host: "analytics.example.com",
  settings: { ca: "the target's `ca`", scheme: "http://" },
};
const ldap: Peer = {
  host: "ldap.example.com:636",
  settings: {
    ca: "the source's `tls.ca`",
    serverName: "`tls.serverName`",
    certificate: "`tls.cert`",
    scheme: "ldap://",
  },
};

function thrown(code: string, more: object = {}): Error {
  return Object.assign(new Error("whole certificates may stand here"), { code, ...more });
}

test.each([
  ["CERT_SIGNATURE_FAILURE", "certificate", /of ldap\.example\.com:636 .* give its issuer's .* source's `tls\.ca`$/],
  ["CERT_HAS_EXPIRED", "certificate", /expired or not valid yet/],
  ["CERT_REVOKED", "certificate", /not accepted \(CERT_REVOKED\)/],
  ["ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED", "certificate", /a client certificate \(`tls\.cert`\)/],
  ["ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION", "encryption", /newer or older TLS/],
  ["ERR_SSL_WRONG_VERSION_NUMBER", "encryption", /is it ldap:\/\/ or another port/],
  ["EPROTO", "encryption", /no TLS with ldap\.example\.com:636/],
  ["ENOTFOUND", "network", /host name ldap\.example\.com is not known/],
  ["ECONNREFUSED", "network", /nothing listens at ldap\.example\.com:636/],
  ["EHOSTUNREACH", "network", /cannot be reached/],
])("%s is a problem of the %s", (code, kind, reason) => {
  const problem = connectionProblem(thrown(code), ldap);
  expect(problem).toEqual({ kind, reason: expect.stringMatching(reason) });
  expect(problem?.reason).toContain(code);
});

test("a certificate for other names: the names, and the settings that help", () => {
  const error = thrown("ERR_TLS_CERT_ALTNAME_INVALID", { cert: { subjectaltname: "DNS:a.example.com" } });
  expect(connectionProblem(error, bare)?.reason).toMatch(
    /for other names \(DNS:a\.example\.com\): use one of them in the url$/,
  );
  expect(connectionProblem(error, ldap)?.reason).toMatch(/in the url, or as `tls\.serverName`$/);
  expect(connectionProblem(thrown("ERR_TLS_CERT_ALTNAME_INVALID", { cert: {} }), bare)?.reason).toContain(
    "it names none",
  );
});

test("unknown errors are left unchanged", () => {
  for (const error of [thrown("ECONNRESET"), thrown("UND_ERR_SOCKET"), new Error("ECONNREFUSED"), "ECONNREFUSED"])
    expect(connectionProblem(error, bare)).toBeUndefined();
});

test.each([
  [20, "20 ms"],
  [500, "500 ms"],
  [2500, "2.5 s"],
  [119_000, "119 s"],
  [150_000, "2.5 min"],
])("%d ms are %s", (duration, words) => {
  expect(formatDuration(duration)).toBe(words);
});
