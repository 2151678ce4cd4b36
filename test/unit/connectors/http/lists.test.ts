import { expect, test } from "vitest";
import { addressOf } from "#connectors/http/lists.ts";

const options = { url: "https://hr.example.com/v1/" };

test("an id is one part of a path, whatever it holds", () => {
  expect(addressOf(options, "groups/{id}/members", "a/b?c#d").href).toBe(
    "https://hr.example.com/v1/groups/a%2Fb%3Fc%23d/members",
  );
  for (const id of [".", ".."])
    expect(() => addressOf(options, "groups/{id}/members", id)).toThrow(`the id ${id} cannot stand for {id}`);
});
