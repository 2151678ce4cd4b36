import type { IncomingMessage } from "node:http";

/**
 * Has an answer reach a client that is still sending its request, and wants no further answer on its connection
 * (`Connection: close`, HTTP/1.0). When such an answer is written Node destroys the socket; what is unread then makes the
 * system reset the connection, and the client finds that instead of the answer. So the connection is closed in this
 * direction alone, and what still comes is read and dropped until the request is complete.
 */
export function lingerFor(request: IncomingMessage): void {
  const { socket } = request;
  const asBefore = (): boolean => Reflect.deleteProperty(socket, "destroySoon");
  socket.destroySoon = () => {
    asBefore();
    if (request.complete || request.destroyed) {
      socket.destroySoon();
      return;
    }
    socket.end();
    request.once("end", () => {
      socket.destroySoon();
    });
    request.resume();
  };
  request.once("close", asBefore);
}
