package extract

import (
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"
)

// A formatCase is a line of testdata/formats.tsv: a number, a format code, and what LibreOffice 7.4.7 shows (US English,
// runs of blanks as one, none at the ends).
type formatCase struct {
	value       float64
	code, shown string
}

func formats(t *testing.T) (list []formatCase) {
	t.Helper()
	data, err := os.ReadFile("testdata/formats.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		v, err := strconv.ParseFloat(parts[0], 64)
		if err != nil || len(parts) != 3 {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, formatCase{v, parts[1], parts[2]})
	}
	return list
}

func TestNumbersAreShownAsByLibreOffice(t *testing.T) {
	t.Parallel()
	for _, f := range formats(t) {
		if shown, certain := parseFormat(f.code).show(f.value, false); oneLine(shown) != f.shown || !certain {
			t.Errorf("%v as %s is %q (certain: %t), want %q", f.value, f.code, oneLine(shown), certain, f.shown)
		}
	}
}

// TestNumbersAreShownAsByTheFormat has what LibreOffice shows otherwise than Excel or than the number means, and
// workbooks whose dates count from 1904.
func TestNumbersAreShownAsByTheFormat(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		formatCase
		from1904, uncertain bool
	}{
		{formatCase: formatCase{-5, "[=1]0;0.0", "-5.0"}},                                                     // LibreOffice drops the sign
		{formatCase: formatCase{-2500, `[>=10000000]##\,##\,##\,##0;[>=100000]##\,##\,##0;##,##0`, "-2,500"}}, // see findings/libreoffice-condition-sign.sh
		{formatCase: formatCase{1.2345, "0.0%", "123.5%"}},
		{formatCase: formatCase{-5.5, "0.00;@", "-5.50"}},
		{formatCase: formatCase{-0.25, "[h]:mm;@", "-6:00"}},
		{formatCase: formatCase{0.52, "h:mm A/P", "12:28 P"}},
		{formatCase: formatCase{60, "yyyy-mm-dd", "1900-02-29"}}, // a day of Excel's calendar
		{formatCase: formatCase{59, "yyyy-mm-dd", "1900-02-28"}},
		{formatCase: formatCase{1, "dddd yyyy-mm-dd", "Sunday 1900-01-01"}},
		{formatCase: formatCase{0.270833334, "yyyy-mm-dd hh:mm", "1900-01-00 06:30"}},
		{formatCase{0.270833334, "yyyy-mm-dd hh:mm", "1904-01-01 06:30"}, true, false},
		{formatCase{1.25, "[h]:mm:ss", "30:00:00"}, true, false},
		{formatCase{0, "dddd yyyy-mm-dd", "Friday 1904-01-01"}, true, false},
		{formatCase{43538, "yyyy-mm-dd", "2023-03-15"}, true, false},
		{formatCase{-1, "yyyy-mm-dd", "-1"}, false, true},
		{formatCase{3e6, "yyyy-mm-dd", "3000000"}, false, true},
		{formatCase{5, `[=1]"one";[=2]"two"`, "5"}, false, true},
		{formatCase{5, "[DBNum1]0", "5"}, false, true},
		{formatCase: formatCase{45000, "[$-404]e/m/d", "112/3/15"}},
		{formatCase: formatCase{32516, "[$-411]ggge", "平成1"}},
		{formatCase: formatCase{45084, "[$-40C]d mmm", "7 juin"}}, // three letters are of July, too
		{formatCase: formatCase{45114, "[$-40C]d mmm", "7 juil"}},
		{formatCase: formatCase{45004, "[$-41F]ddd", "Pazar"}}, // three letters are of Monday, too
		{formatCase: formatCase{45005, "[$-41F]ddd", "Pazart"}},
		{formatCase: formatCase{45000, "[$-de-DE]d. mmmm yyyy", "15. März 2023"}},
		{formatCase: formatCase{45000, "[$-x-sysdate]dddd, mmmm dd, yyyy", "Wednesday, March 15, 2023"}},
		{formatCase: formatCase{45000, "[$-41E]d/m/bbbb", "15/3/2566"}},
		{formatCase{45000, "[$-1060401]d/m/yyyy", "15/3/2023"}, false, true}, // the calendar of Islam
		{formatCase: formatCase{1234567.891, "h:mm:ss.00", "21:23:02.40"}},
		{formatCase: formatCase{-5, "[Red]", "-5"}},
	} {
		if shown, certain := parseFormat(f.code).show(f.value, f.from1904); oneLine(shown) != f.shown || certain == f.uncertain {
			t.Errorf("%v as %s is %q (certain: %t), want %q", f.value, f.code, oneLine(shown), certain, f.shown)
		}
	}
}

// TestFormatsOfLibreOffice compares the table with the LibreOffice that is installed.
func TestFormatsOfLibreOffice(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("soffice"); err != nil {
		t.Skip("LibreOffice is not installed")
	}
	list := formats(t)
	book := excelize.NewFile()
	for i, f := range list {
		cell := fmt.Sprintf("A%d", i+1)
		style, err := book.NewStyle(&excelize.Style{CustomNumFmt: &f.code})
		if err == nil {
			err = book.SetCellValue("Sheet1", cell, f.value)
		}
		if err == nil {
			err = book.SetCellStyle("Sheet1", cell, cell, style)
		}
		if err == nil {
			err = book.SetCellStr("Sheet1", fmt.Sprintf("B%d", i+1), "x")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if err := book.SaveAs(filepath.Join(dir, "a.xlsx")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("soffice", "-env:UserInstallation=file://"+dir+"/profile", "--headless", "--convert-to", "csv:Text - txt - csv (StarCalc):44,34,76", "--outdir", dir, filepath.Join(dir, "a.xlsx")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(dir, "a.csv"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(data))).ReadAll()
	if err != nil || len(rows) != len(list) {
		t.Fatalf("%d rows of %d: %v", len(rows), len(list), err)
	}
	for i, f := range list {
		if got := oneLine(rows[i][0]); got != f.shown {
			t.Errorf("%v as %s is %q now, not %q", f.value, f.code, got, f.shown)
		}
	}
}
