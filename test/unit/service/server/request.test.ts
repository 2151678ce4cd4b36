import { describe, expect, test } from "vitest";
import { parametersOf } from "#service/server/request.ts";

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
