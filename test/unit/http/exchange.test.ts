import { describe, expect, test } from "vitest";
import type { IncomingMessage } from "node:http";
import { createAddressOf, parametersOf } from "#http/exchange.ts";

function read(query: string, form: string): unknown {
  return parametersOf(new URLSearchParams(query), new URLSearchParams(form));
}

describe("0.3", () => {
  test("names are matched without regard to case", () => {
    expect(read("batchSize=1", "UserName=ada")).toEqual({ batchsize: "1", username: "ada" });
  });
  test("the form wins over the query, whatever the case", () => {
    expect(read("username=query", "USERNAME=form")).toEqual({ username: "form" });
  });
  test("the last of several wins over the earlier", () => {
    expect(read("a=1&A=2", "b=1&b=2&B=3")).toEqual({ a: "2", b: "3" });
  });
  test("names of the language's own objects are names like others", () => {
    expect(Object.entries(read("__proto__=1&constructor=2", "") as object)).toEqual([
      ["__proto__", "1"],
      ["constructor", "2"],
    ]);
  });
});

describe("0.8 the address of a client", () => {
  const from = (socket: string, forwarded: string | undefined, trusted: readonly string[]): string => {
    const headers = { "x-forwarded-for": forwarded };
    return createAddressOf(trusted)({ headers, socket: { remoteAddress: socket } } as unknown as IncomingMessage);
  };

  test("is that of its socket, whatever it says, unless a trusted proxy says it", () => {
    expect(from("192.0.2.1", "10.9.9.9", [])).toBe("192.0.2.1");
    expect(from("192.0.2.1", "10.9.9.9", ["127.0.0.1"])).toBe("192.0.2.1");
    expect(from("127.0.0.1", undefined, ["127.0.0.1"])).toBe("127.0.0.1");
    expect(from("127.0.0.1", "198.51.100.7", ["127.0.0.1"])).toBe("198.51.100.7");
    expect(from("::ffff:127.0.0.1", "198.51.100.7", ["127.0.0.1"])).toBe("198.51.100.7");
  });

  test("is the last one that is no proxy's: what stands before it, the client may have made up", () => {
    const proxies = ["127.0.0.1", "10.0.0.0/8", "fd00::/8"];
    expect(from("127.0.0.1", "203.0.113.1, 198.51.100.7, 10.1.2.3", proxies)).toBe("198.51.100.7");
    expect(from("fd00::1", "203.0.113.1,2001:db8::5", proxies)).toBe("2001:db8::5");
    expect(from("10.0.0.1", "10.0.0.3, 10.0.0.2", proxies)).toBe("10.0.0.3");
  });

  test("comes with or without a port, and what is none ends with the proxy that said it", () => {
    const proxies = ["10.0.0.0/8"];
    expect(from("10.0.0.1", "198.51.100.7:4711", proxies)).toBe("198.51.100.7");
    expect(from("10.0.0.1", "[2001:db8::5]:4711", proxies)).toBe("2001:db8::5");
    expect(from("10.0.0.1", "[2001:db8::5]", proxies)).toBe("2001:db8::5");
    for (const odd of ["unknown", "", "198.51.100.7, <script>", "198.51.100.7, 1.2.3.4.5", "198.51.100.7,"]) {
      expect(from("10.0.0.1", odd, proxies), odd).toBe("10.0.0.1");
    }
    expect(from("10.0.0.1", "198.51.100.7, -, 10.0.0.2", proxies)).toBe("10.0.0.2");
  });
});
