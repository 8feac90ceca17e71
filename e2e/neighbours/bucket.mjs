// s3rver with one bucket. Arguments: the port, the directory.
import S3rver from "s3rver";

const [port, directory] = process.argv.slice(2);
new S3rver({ port: Number(port), address: "127.0.0.1", directory, silent: true, configureBuckets: [{ name: "stoa-files" }] }).run((error) => console.log(error ? String(error) : "ready"));
