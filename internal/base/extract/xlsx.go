package extract

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/xuri/excelize/v2"
)

const (
	maxGap    = 100    // empty rows that are written as empty lines; more begin a new place
	maxPlaces = 10_000 // of a workbook
)

// readXLSX returns the text of a workbook: a line per row.
func (a *archive) readXLSX(data []byte) Result {
	for _, f := range a.files { // the sizes that excelize relies on may be wrong
		r, err := a.open(f.Name)
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if errors.Is(err, errTooMuch) {
			return Result{Status: Timeout, Note: "The workbook unpacks to more than 64 MB."}
		}
	}
	// With equal limits nothing is written to temporary files.
	book, err := excelize.OpenReader(bytes.NewReader(data), excelize.Options{UnzipSizeLimit: 2 * maxInflated, UnzipXMLSizeLimit: 2 * maxInflated})
	switch {
	case errors.Is(err, excelize.ErrWorkbookFileFormat), errors.Is(err, excelize.ErrWorkbookPassword):
		return encrypted()
	case err != nil:
		return broken("XLSX file")
	}
	var f flow
	any, left := false, MaxCells
	sheets := book.GetSheetList()
	var failed error
	for i, name := range sheets {
		p := Place{Name: "sheet " + name, Page: int64(i + 1)}
		f.place(p)
		f.line("[sheet " + oneLine(name) + "]")
		rows, err := book.Rows(name)
		if err != nil { // such as a sheet with a chart only
			if _, chart := errors.AsType[excelize.ErrSheetNotExist](err); !chart {
				failed = err
			}
			continue
		}
		written := int64(0) // the number of the last written row
		for n := int64(1); rows.Next() && !f.full; n++ {
			row, err := rows.Columns()
			if err != nil {
				failed = err
				break
			}
			if left -= len(row); left < 0 || len(f.places) > maxPlaces {
				f.full = true
				break
			}
			text := sheetRow(row)
			if text == "" {
				continue
			}
			any = true
			if gap := n - written - 1; written == 0 || gap > maxGap {
				p.Row = n
				f.place(p)
			} else {
				f.write(strings.Repeat("\n", int(gap)))
			}
			f.line(text)
			written = n
		}
		if err := errors.Join(rows.Error(), rows.Close()); err != nil {
			failed = err
		}
		comments, err := book.GetComments(name)
		if err != nil {
			failed = err
		}
		for i, c := range comments {
			if i == 0 {
				f.place(Place{Name: p.Name + ", comments", Page: p.Page})
			}
			text := c.Text
			for _, run := range c.Paragraph {
				text += run.Text
			}
			any = true
			f.line("Comment on " + c.Cell + ": " + oneLine(text))
		}
		f.line("")
	}
	if len(sheets) == 0 {
		return broken("XLSX file")
	}
	return a.outcome(&f, int64(len(sheets)), !any, failed, "XLSX file")
}

// sheetRow returns a row as a line without its empty end; "" for an empty row.
func sheetRow(row []string) string {
	for i, c := range row {
		row[i] = oneLine(c)
	}
	for len(row) > 0 && row[len(row)-1] == "" {
		row = row[:len(row)-1]
	}
	return strings.Join(row, " | ")
}
