// Images of a message of the playground.
import { useRef } from "preact/hooks";
import { Button } from "./basic";

export interface Image {
  name: string;
  url: string; // a data URL
}

const kinds = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const most = 20; // images in one message
const largest = 3_750_000; // bytes of one

// imagesOf reads files that were dropped, pasted or picked; refused contains the
// reasons for rejected ones.
export async function imagesOf(files: Iterable<File>, have: number): Promise<{ images: Image[]; refused?: string }> {
  const images: Image[] = [];
  let refused: string | undefined;
  for (const file of files) {
    if (!kinds.includes(file.type)) refused = `${file.name} is not a PNG, JPEG, WebP or GIF.`;
    else if (file.size > largest) refused = `${file.name} is larger than 3.75 MB.`;
    else if (have + images.length >= most) refused = `A message has at most ${most} images.`;
    else images.push({ name: file.name, url: await dataURL(file) });
  }
  return { images, refused };
}

function dataURL(file: File): Promise<string> {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result as string);
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
}

// Images shows the images of the current message, and adds more.
export function Images({ images, onAdd, onRemove }: { images: Image[]; onAdd: (files: Iterable<File>) => void; onRemove: (at: number) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <div class="row images">
      {images.map((image, at) => (
        <span class="row">
          <img class="picture" src={image.url} alt={image.name} />
          <Button small kind="quiet" icon="cross" label={`Remove ${image.name}`} onClick={() => onRemove(at)} />
        </span>
      ))}
      <input
        ref={input}
        class="unseen"
        type="file"
        tabIndex={-1}
        aria-hidden="true"
        multiple
        accept={kinds.join(",")}
        onChange={(e) => {
          onAdd([...(e.currentTarget.files ?? [])]);
          e.currentTarget.value = "";
        }}
      />
      <Button small icon="plus" onClick={() => input.current?.click()}>
        Add an image
      </Button>
    </div>
  );
}
