import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { hrMedium } from "./hr-medium.ts";
import { sourceSuite } from "./suite.ts";

test("connectors/README.md shows the connector that is tested here", async () => {
  const readme = await readFile(new URL("../../../connectors/README.md", import.meta.url), "utf8");
  const example = await readFile(new URL("hr.ts", import.meta.url), "utf8");
  expect(readme).toContain(`\`\`\`ts\n${example}\`\`\`\n`);
});

sourceSuite(
  hrMedium({
    before: [
      { name: "nothing answers", inject: ({ stop }) => stop(), message: /people\?page=1: no complete answer: / },
      {
        name: "the token is refused",
        inject: async ({ intercept }) =>
          intercept((_, response) => {
            response.writeHead(401).end();
            return true;
          }),
        message: /people\?page=1: the token was refused/,
      },
      {
        name: "the server is broken",
        inject: async ({ intercept }) =>
          intercept((_, response) => {
            response.writeHead(503).end();
            return true;
          }),
        message: /people\?page=1: answered 503/,
      },
      {
        name: "the answer is something else",
        inject: async ({ intercept }) =>
          intercept((_, response) => {
            response.writeHead(200).end('{"people": []}');
            return true;
          }),
        message: /people\?page=1: .*revision/s,
      },
    ],
    during: [
      {
        name: "the directory changes",
        inject: async ({ touch }) => touch(),
        message: /people\?page=2: the directory changed meanwhile/,
      },
      {
        name: "a page is empty",
        inject: async ({ intercept }) =>
          intercept((_, response) => {
            response.writeHead(200).end('{"revision": "1", "total": 5000, "items": []}');
            return true;
          }),
        message: /people\?page=2: received 500 of 5000 people/,
      },
      {
        name: "an answer is cut off",
        inject: async ({ intercept }) =>
          intercept((_, response) => {
            response.writeHead(200, { "content-length": 1000 }).write('{"revision": "1", ');
            setImmediate(() => response.destroy());
            return true;
          }),
        message: /people\?page=2: no complete answer: /,
      },
    ],
  }),
);
