// GORM against pgsluice: one line per check, exit code 1 if any failed.
//
//	PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app go run ./gorm
package main

import (
	"errors"
	"fmt"
	"time"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
	. "pgsluice.example/drivers/check"
)

const schema = "drv_gorm"

// Author has what GORM calls associations.
type Author struct {
	gorm.Model
	Name  string `gorm:"size:80;uniqueIndex"`
	Age   *int   `gorm:"check:age >= 0"`
	Extra string `gorm:"type:jsonb;default:'{}'"`
	Books []Book `gorm:"constraint:OnDelete:CASCADE"`
	Likes []Book `gorm:"many2many:likes"`
}

// Book is written by one author.
type Book struct {
	ID       uint
	AuthorID uint
	Title    string `gorm:"index;comment:as on the cover"`
	Price    float64
	Added    time.Time `gorm:"autoCreateTime"`
}

// GrownBook is Book after a change of the program.
type GrownBook struct {
	Book
	Pages int    `gorm:"default:1"`
	Kind  string `gorm:"size:10;index"`
}

// TableName is that of Book.
func (GrownBook) TableName() string { return schema + ".books" }

func open(dialector postgres.Config, config gorm.Config) *gorm.DB {
	dialector.DSN = With(map[string]string{"search_path": schema, "application_name": "drv"})
	config.Logger = logger.Default.LogMode(logger.Silent)
	db := Got(gorm.Open(postgres.New(dialector), &config))
	Got(db.DB()).SetMaxOpenConns(10)
	return db
}

func count(db *gorm.DB) (n int64) {
	Must(db.Count(&n).Error)
	return n
}

func checks(db *gorm.DB) []One {
	return []One{
		{Name: "AutoMigrate, again, after a change; the migrator's questions", Run: func() {
			Must(db.Exec("drop schema if exists " + schema + " cascade").Error)
			Must(db.Exec("create schema " + schema).Error)
			for range 3 {
				Must(db.AutoMigrate(&Author{}, &Book{}))
			}
			Must(db.AutoMigrate(&GrownBook{}))
			m := db.Migrator()
			Equal(m.HasTable(&Author{}) && m.HasColumn(&GrownBook{}, "Pages") && m.HasIndex(&Author{}, "Name") && m.HasConstraint(&Author{}, "Books"), true)
			Equal(len(Got(m.ColumnTypes(&GrownBook{}))), 7)
			Equal(len(Got(m.GetTables())), 3)
			Equal(len(Got(m.GetIndexes(&GrownBook{}))) >= 3, true)
			Must(m.DropColumn(&GrownBook{}, "Kind"))
			Must(m.RenameColumn(&GrownBook{}, "pages", "leaves"))
			Must(m.AlterColumn(&Author{}, "Name"))
			Must(m.CreateView("titles", gorm.ViewOption{Query: db.Model(&Book{}).Select("title")}))
			Must(m.DropView("titles"))
		}},
		{Name: "create with associations, batches, upsert, preload, joins, update, soft delete", Run: func() {
			age := 36
			ada := Author{Name: "Ada", Age: &age, Extra: `{"k": [1, null]}`}
			for i := range 300 {
				ada.Books = append(ada.Books, Book{Title: fmt.Sprint("book ", i), Price: float64(i)})
			}
			Must(db.Create(&ada).Error)
			var many []Author
			for i := range 500 {
				many = append(many, Author{Name: fmt.Sprint("bulk ", i), Extra: "{}"})
			}
			Must(db.CreateInBatches(&many, 100).Error)
			Must(db.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "name"}}, DoUpdates: clause.AssignmentColumns([]string{"age"})}).Create(&Author{Name: "Ada", Age: new(int), Extra: "{}"}).Error)
			var found Author
			Must(db.Preload("Books", func(db *gorm.DB) *gorm.DB { return db.Order("id").Limit(10) }).Where("name = ?", "Ada").First(&found).Error)
			Equal(len(found.Books), 10)
			Equal(*found.Age, 0)
			Must(db.Model(&found).Association("Likes").Append(found.Books[:3]))
			Equal(db.Model(&found).Association("Likes").Count(), 3)
			Must(db.Model(&Book{}).Where("price < ?", 10).Update("price", gorm.Expr("price + ?", 1000)).Error)
			Equal(count(db.Model(&Book{}).Where("price >= ?", 1000)), 10)
			Equal(count(db.Model(&Author{}).Joins("join books on books.author_id = authors.id").Where("books.title in ?", []string{"book 1", "book 2"})), 2)
			Must(db.Where("name like ?", "bulk %").Delete(&Author{}).Error)
			Equal(count(db.Model(&Author{})), 1)
			Equal(count(db.Unscoped().Model(&Author{})), 501)
			batches := 0
			var books []Book
			Must(db.FindInBatches(&books, 50, func(*gorm.DB, int) error { batches++; return nil }).Error)
			Equal(batches, 6)
			if err := db.Where("name = ?", "nobody").First(&Author{}).Error; !errors.Is(err, gorm.ErrRecordNotFound) {
				panic(err)
			}
		}},
		{Name: "transactions, nested, rolled back, locking; errors", Run: func() {
			Must(db.Transaction(func(tx *gorm.DB) error {
				Must(tx.Create(&Author{Name: "outer", Extra: "{}"}).Error)
				Fails(tx.Transaction(func(tx *gorm.DB) error { return tx.Create(&Author{Name: "Ada", Extra: "{}"}).Error }), "23505")
				return tx.Clauses(clause.Locking{Strength: "UPDATE", Options: "SKIP LOCKED"}).Where("name = ?", "outer").First(&Author{}).Error
			}))
			tx := db.Begin()
			Must(tx.Where("id > ?", 20).Delete(&Book{}).Error)
			Must(tx.SavePoint("s").Error)
			Must(tx.RollbackTo("s").Error)
			Must(tx.Rollback().Error)
			Equal(count(db.Model(&Book{})), 300)
			Fails(db.Exec("select 1 / ?::int", 0).Error, "22012")
			Fails(db.Exec("selec").Error, "42601")
		}},
		{Name: "read your writes, 20 goroutines", Run: func() {
			Together(20, func(id int) {
				for i := range 10 {
					Must(db.Transaction(func(tx *gorm.DB) error {
						Must(tx.Create(&Author{Name: fmt.Sprint("task ", id, " ", i), Extra: "{}"}).Error)
						Equal(count(tx.Model(&Author{}).Where("name like ?", fmt.Sprint("task ", id, " %"))), i+1)
						return nil
					}))
				}
			})
			Equal(count(db.Model(&Author{}).Where("name like 'task %'")), 200)
			var rows []map[string]any
			Must(db.Raw("select name, age from authors where name like ? order by id", "task %").Scan(&rows).Error)
			Equal(len(rows), 200)
		}},
	}
}

func main() {
	var all []One
	for _, kind := range []struct {
		name string
		db   *gorm.DB
	}{
		{"default", open(postgres.Config{}, gorm.Config{})},
		{"PrepareStmt", open(postgres.Config{}, gorm.Config{PrepareStmt: true})},
		{"PreferSimpleProtocol", open(postgres.Config{PreferSimpleProtocol: true}, gorm.Config{})},
		{"SkipDefaultTransaction", open(postgres.Config{}, gorm.Config{SkipDefaultTransaction: true, CreateBatchSize: 50})},
	} {
		for _, one := range checks(kind.db) {
			all = append(all, One{Name: kind.name + ": " + one.Name, Run: one.Run})
		}
	}
	Run(all, func() { open(postgres.Config{}, gorm.Config{}).Exec("drop schema if exists " + schema + " cascade") })
}
