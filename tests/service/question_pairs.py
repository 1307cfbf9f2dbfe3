"""A hundred pairs of questions, English and Chinese: the same but for typing, paraphrases, and near misses."""

from __future__ import annotations

TYPED: tuple[tuple[str, str], ...] = (
    ("Which orders are open?", "which orders are open"),
    ("How many pieces are left of A-100?", "HOW MANY PIECES ARE LEFT OF A-100?"),
    ("Show the total of March", "please show the total of March."),
    ("List late deliveries", "Could you please list late deliveries?"),
    ("Who ordered 40 chairs?", "  Who   ordered 40\tchairs ??"),
    ("What is the stock of bolts?", "Hello, what is the stock of bolts?"),
    ("Is order 17 paid?", "Is order １７ paid？"),
    ("What’s overdue?", "What's overdue?"),
    ("Show Anna's orders", "Hi there, please show Anna's orders!"),
    ("今天有多少订单？", "今天有多少订单"),
    ("查一下 A100 的库存", "请查一下A100的库存。"),
    ("张三的电话是多少？", "请问张三的电话是多少？"),
    ("列出未付款的发票", "您好，请列出未付款的发票！"),
    ("本月销售额是多少", "请问一下，本月销售额是多少？"),
)
"""Both are the same question, and are served at once."""

PARAPHRASES: tuple[tuple[str, str], ...] = (
    ("Which orders are open?", "What orders are still open?"),
    ("How many pieces are left of A-100?", "What is the remaining stock of A-100?"),
    ("Show the total of March", "What was the overall sum in March?"),
    ("List late deliveries", "Which deliveries are late?"),
    ("Who ordered 40 chairs?", "Which customer ordered 40 chairs?"),
    ("Is order 17 paid?", "Has order 17 been paid?"),
    ("What is the price of a bolt?", "How much does a bolt cost?"),
    ("Show Anna's orders", "Show the orders of Anna"),
    ("When does the shop open?", "At what time does the shop open?"),
    ("Which machines are idle?", "Which machines stand idle?"),
    ("What is our largest order?", "Which of our orders is the largest?"),
    ("How do I return an item?", "What must I do to return an item?"),
    ("今天有多少订单？", "今天的订单有多少？"),
    ("查一下 A100 的库存", "A100 还有多少库存？"),
    ("张三的电话是多少？", "张三的电话号码是什么？"),
    ("列出未付款的发票", "哪些发票还没有付款？"),
    ("本月销售额是多少", "这个月的销售额是多少"),
    ("哪台机器停机了？", "哪台机器现在停机？"),
    ("仓库几点关门？", "仓库什么时候关门？"),
    ("最大的订单是哪一个？", "哪一个订单最大？"),
)
"""They mean the same, which only a model can say."""

NEAR_MISSES: dict[str, tuple[tuple[str, str], ...]] = {
    "number": (
        ("Show the last 10 orders", "Show the last 100 orders"),
        ("Who ordered 40 chairs?", "Who ordered 41 chairs?"),
        ("Is order 17 paid?", "Is order 71 paid?"),
        ("What is 5²?", "What is 52?"),
        ("What is 6!", "What is 6"),
        ("A batch of 1½ tons", "A batch of 11⁄2 tons"),
        ("查一下 A100 的库存", "查一下 A1000 的库存"),
        ("列出前三个客户", "列出前五个客户"),
    ),
    "date": (
        ("Show the total of March", "Show the total of May"),
        ("What was sold on 2026-01-02?", "What was sold on 2026-02-01?"),
        ("What is due today?", "What is due tomorrow?"),
        ("Sales of last week", "Sales of this week"),
        ("本月销售额是多少", "上月销售额是多少"),
        ("今天有多少订单？", "昨天有多少订单？"),
        ("三月五日的会议", "五月三日的会议"),
    ),
    "negation": (
        ("Which invoices are paid?", "Which invoices are not paid?"),
        ("Which invoices are paid?", "Which invoices are unpaid?"),
        ("Who may see this?", "Who may not see this?"),
        ("Orders with a discount", "Orders without a discount"),
        ("列出已付款的发票", "列出未付款的发票"),
        ("哪些客户下了单？", "哪些客户没下单？"),
        ("可以退货吗？", "不可以退货吗？"),
    ),
    "name": (
        ("Show Anna's orders", "Show Hanna's orders"),
        ("Show orders of Smith", "Show orders of Smyth"),
        ("What is the stock of bolts?", "What is the stock of belts?"),
        ("List US orders", "List us orders"),
        ("Which staff use IT?", "Which staff use it?"),
        ("张三的电话是多少？", "张山的电话是多少？"),
        ("上海的仓库在哪？", "海上的仓库在哪？"),
    ),
    "unit": (
        ("Weight of A-100 in kg", "Weight of A-100 in g"),
        ("Total in euros", "Total in dollars"),
        ("Length in m", "Length in mm"),
        ("How many hours did it run?", "How many days did it run?"),
        ("A100 有多少公斤？", "A100 有多少公里？"),
        ("总价多少元？", "总价多少美元？"),
    ),
    "word order": (
        ("Did Anna pay Bob?", "Did Bob pay Anna?"),
        ("Move stock from Bonn to Bern", "Move stock from Bern to Bonn"),
        ("Only show orders that Anna made", "Show orders that only Anna made"),
        ("张三欠李四多少钱？", "李四欠张三多少钱？"),
        ("从北京到上海的货", "从上海到北京的货"),
        ("乒乓球拍 卖完了", "乒乓球 拍卖完了"),
    ),
    "tense": (
        ("What did we ship?", "What do we ship?"),
        ("Who works on Sunday?", "Who worked on Sunday?"),
        ("Which orders were late?", "Which orders will be late?"),
        ("机器停了吗？", "机器要停吗？"),
        ("谁来过？", "谁会来？"),
    ),
    "who": (
        ("What can I approve?", "What can he approve?"),
        ("Who approves Anna?", "Whom does Anna approve?"),
        ("Whom do we owe money?", "Who owes us money?"),
        ("When did she call me?", "When did I call her?"),
        ("我要给谁付款？", "谁要给我付款？"),
        ("他批准了谁？", "谁批准了他？"),
    ),
    "whose": (
        ("Show my orders", "Show your orders"),
        ("Show my orders", "Show all orders"),
        ("What is our budget?", "What is their budget?"),
        ("Is this her team's order?", "Is this his team's order?"),
        ("我的订单有哪些？", "他的订单有哪些？"),
        ("我们的预算是多少？", "你们的预算是多少？"),
    ),
    "look alike": (
        ("请假几天了？", "假几天了？"),
        ("麻烦的客户有哪些？", "客户有哪些？"),
        ("Can you cancel order 5?", "Cancel order 5"),
        ("hello world programs sold", "world programs sold"),
        ("What is n!", "What is n"),
        ("Please all customers?", "Do we please all customers?"),
        ("What is x²?", "What is x2?"),
        ("Price of C", "Price of C#"),
    ),
}
"""They are alike, and mean something else: not one may be answered with the other's answer."""

ALL = (
    *((one, other, "typed") for one, other in TYPED),
    *((one, other, "paraphrase") for one, other in PARAPHRASES),
    *((one, other, kind) for kind, pairs in NEAR_MISSES.items() for one, other in pairs),
)
