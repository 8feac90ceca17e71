package extract

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// Limits of a child, because a document may be damaged or hostile.
const (
	maxDocument = 64 << 20  // bytes of a document
	maxMemory   = 512 << 20 // bytes of data
	softMemory  = 384 << 20 // bytes of Go's heap, above which garbage is collected more often
	maxStack    = 64 << 20  // bytes of the stack of a goroutine
	maxRequest  = 1 << 20   // bytes of the request

	childThreads = 2
)

// Child is the main function of a child: it reads one request from in and writes one reply to out. It limits the memory
// and the processor time of the process. It returns early if the service was killed; the process must then end, because
// only Linux ends it by itself.
func Child(in io.Reader, out io.Writer) error {
	done := make(chan error, 1)
	go func() { done <- serve(in, out) }()
	parent, check := os.Getppid(), time.NewTicker(time.Second)
	defer check.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-check.C:
			if os.Getppid() != parent {
				return errors.New("the service ended")
			}
		}
	}
}

func serve(in io.Reader, out io.Writer) error {
	r := bufio.NewReaderSize(in, maxRequest)
	line, err := r.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	var q request
	if err := json.Unmarshal(line, &q); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	if q.Task == "warm" {
		return answer(out, outcome(compilePDF(context.Background(), q.Cache)))
	}
	runtime.GOMAXPROCS(childThreads) // because each thread needs memory
	debug.SetMemoryLimit(softMemory)
	debug.SetMaxStack(maxStack)
	if err := limit(maxMemory, uint64(q.Seconds)); err != nil {
		return fmt.Errorf("limit this process: %w", err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	if len(data) > maxDocument {
		return answer(out, Result{Status: Timeout, Note: fmt.Sprintf("Documents of more than %d MB are not read.", maxDocument>>20)})
	}
	if q.Task == "tables" && q.Tables != nil {
		return answer(out, tables(context.Background(), *q.Tables, data))
	}
	if q.Task == "page" {
		return answer(out, RenderPage(context.Background(), data, q.Page, q.Cache))
	}
	return answer(out, Parse(context.Background(), Document{Name: q.Name, MediaType: q.MediaType, Encoding: q.Encoding}, data, q.Cache))
}

func outcome(err error) Result {
	if err != nil {
		return Result{Status: Unsupported, Note: err.Error()}
	}
	return Result{Status: Ready}
}

func answer(out io.Writer, r Result) error {
	line, err := json.Marshal(reply{Status: r.Status, Pages: r.Pages, Places: r.Places, Encoding: r.Encoding, Note: r.Note, Bytes: len(r.Text)})
	if err != nil {
		return err
	}
	if _, err := out.Write(append(line, '\n')); err != nil {
		return err
	}
	_, err = out.Write(r.Text)
	return err
}
