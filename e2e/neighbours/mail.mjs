// smtp-server of nodemailer with a login, without TLS. It prints each message as a line of JSON.
// Argument: the port.
import { SMTPServer } from "smtp-server";

const server = new SMTPServer({
  authOptional: false,
  allowInsecureAuth: true,
  disabledCommands: ["STARTTLS"],
  onAuth: (auth, _, done) => (auth.username === "stoa" && auth.password === "pässword" ? done(null, { user: "stoa" }) : done(new Error("Invalid login"))),
  onData(stream, session, done) {
    const parts = [];
    stream.on("data", (part) => parts.push(part));
    stream.on("end", () => {
      console.log(JSON.stringify({ helo: session.hostNameAppearsAs, from: session.envelope.mailFrom.address, to: session.envelope.rcptTo.map((r) => r.address), text: Buffer.concat(parts).toString() }));
      done();
    });
  },
});
server.listen(Number(process.argv[2]), "127.0.0.1", () => console.log("ready"));
