"""Words that mean the same to a tool, in English and Chinese: `concept: English | Chinese`, going on where indented."""

CONCEPTS = """
read: read show display view open see look print cat content contents say says | 看 查看
  写了什么 说了什么 讲了什么 写着什么 读 读取 打开
  显示 内容 看看 看一下 展示
write: write save create make new put store | 写 写入 新建 创建 保存 建立 存到
edit: edit change replace modify rename substitute fix update correct instead | 改 修改 替换 换成 改成 改为 编辑
  更正 更新
several: several many multiple every | 多个 批量 多处 许多
find: find locate named called name where exist there glob any | 找 查找 寻找 名为 名叫 找出 找到 叫做 在哪
  在哪里 在哪儿 吗
search: search grep mention contain occurrence occur match matching use define defined definition appear regular
  expression word line text function | 搜索 搜 检索 包含 提到 出现 定义 用到 匹配 这个词 行 函数
list: list ls everything hold entries | 列出 有哪些 有什么 都有什么 列表 所有东西
folder: folder directory dir folders subfolder path | 目录 文件夹 路径
file: file document | 文件
run: run execute start launch build test install | 运行 执行 启动 跑 编译 测试 安装
shell: command shell terminal bash program | 命令 终端 程序
git: git branch commit repository repo uncommitted remote staged version changed status | 分支 提交 仓库 未提交
  改动 暂存 版本库
time: time date today day clock now hour month year weekday tomorrow yesterday o'clock | 时间 日期 今天 几点
  几号 星期 星期几 现在 今年 日子
here: current working here am i'm | 当前 现在在 我在 这里
stop: stop kill end terminate cancel abort quit | 停止 结束 终止 取消 停掉 关掉
background: background job task process | 后台 任务 进程
output: output wrote result printed log | 输出 结果 打印
input: type answer input enter reply prompt | 输入 回答 键入
recursive: recursive recursively subfolders below depth deep tree nested | 递归 子目录 所有子 层 深度 树
limit: first top limit head at most only lines | 前 头 最多 只看 只
skip: skip offset after from | 跳过 从第
count: count many number how | 多少 几个 数量 统计
case: case insensitive ignoring uppercase lowercase | 大小写
preview: preview before dry | 预览
explain: explain why difference meaning mean understand | 解释 为什么 区别 意思 含义 什么叫
mail: mail email message inbox | 邮件 信件 收件箱
send: send deliver forward | 发送 发 寄
delete: delete remove erase drop | 删除 移除 删掉
add: add append insert attach | 添加 增加 追加 插入
calendar: calendar event meeting appointment schedule agenda | 日历 日程 会议 安排 约会
note: note notes obsidian | 笔记
database: database sql query table row record | 数据库 查询 表 记录
web: web http url page website fetch request download link | 网页 网址 网站 请求 下载 链接
weather: weather temperature forecast rain | 天气 气温 下雨
calculate: calculate compute sum add multiply plus minus | 计算 算 求和 加 减 乘
translate: translate translation | 翻译
image: image picture photo screenshot | 图片 照片 截图 图像
user: user account customer member | 用户 账户 客户 成员
order: order purchase buy | 订单 购买 买
price: price cost amount money | 价格 费用 金额 钱
"""
PHRASES = ((r"\bwhat(?:'s| is| are|'re)?(?: there| all)? in(?:side)?\b", "list"),)
"""Words that say more together than each alone."""
SAYS_LITTLE = frozenset({"here"})
"""Concepts that go with many requests: they count less."""
NOTHING_SAID = """
a an the of to in on at for with by and or is are was be do does did it its me my you your i we our us please can could
would will shall what which who whose when has have had this that these those as if then into than so not no give tell
get let some one use used using want need since last anything something just also too all
"""
